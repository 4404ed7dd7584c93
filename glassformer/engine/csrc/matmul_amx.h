/* Products with AMX tiles: 16 rows × 64 inputs of int8 times 64 inputs × 16 outputs in one instruction. Included after
 * matmul_avx512.h, whose kernels serve few rows and fp32.
 *
 * -DEMULATE_AMX replaces the tile instructions by C, to test this file on any CPU with AVX-512. */
#define TILE_ROWS 16
#define MIN_ROWS  4 /* for fewer rows, filling a tile costs more than it saves */

#ifdef EMULATE_AMX
static _Thread_local uint8_t tiles[8][TILE_ROWS][64];

static void emulated_load(int tile, const void *from, size_t stride) {
    for (int r = 0; r < TILE_ROWS; r++) memcpy(tiles[tile][r], (const uint8_t *)from + (size_t)r * stride, 64);
}
static void emulated_product(int c, int a, int b) {
    for (int m = 0; m < TILE_ROWS; m++)
        for (int n = 0; n < 16; n++) {
            int32_t sum;
            memcpy(&sum, &tiles[c][m][4 * n], 4);
            for (int k = 0; k < 64; k++) sum += tiles[a][m][k] * (int8_t)tiles[b][k / 4][4 * n + k % 4];
            memcpy(&tiles[c][m][4 * n], &sum, 4);
        }
}
#define TILE_CONFIGURE(config)        (void)(config)
#define TILE_RELEASE()                (void)0
#define TILE_ZERO(tile)               memset(tiles[tile], 0, sizeof tiles[tile])
#define TILE_LOAD(tile, from, stride) emulated_load(tile, from, stride)
#define TILE_PRODUCT(c, a, b)         emulated_product(c, a, b)
#define TILE_STORE(tile, to)          memcpy(to, tiles[tile], sizeof tiles[tile])
#else
#define TILE_CONFIGURE(config)                                                                                         \
    do {                                                                                                               \
        __asm__ volatile("" ::"r"(config) : "memory"); /* all of it is written: GCC's intrinsic reads 8 bytes */       \
        _tile_loadconfig(config);                                                                                      \
    } while (0)
#define TILE_RELEASE()                _tile_release()
#define TILE_ZERO(tile)               _tile_zero(tile)
#define TILE_LOAD(tile, from, stride) _tile_loadd(tile, from, stride)
#define TILE_PRODUCT(c, a, b)         _tile_dpbusd(c, a, b)
#define TILE_STORE(tile, to)          _tile_stored(tile, to, 64)
#endif

/* Two tiles of rows by two panels. The last tile may reach beyond the rows; what it computes there is not stored. */
static void tiles_int8(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, int panel, int panels,
                       float *out, size_t stride, Epilogue epilogue) {
    const size_t K = (size_t)w->padded_inputs;
    const int8_t *first = w->int8 + (size_t)panel * K * PANEL, *second = panels > 1 ? first + K * PANEL : first;
    const uint8_t *lower = rows > TILE_ROWS ? q + TILE_ROWS * K : q;
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (size_t i = 0; i < K; i += 64) {
        TILE_LOAD(4, q + i, K);
        TILE_LOAD(6, first + i * PANEL, 64);
        TILE_PRODUCT(0, 4, 6);
        TILE_LOAD(7, second + i * PANEL, 64);
        TILE_PRODUCT(1, 4, 7);
        if (rows <= TILE_ROWS) continue;
        TILE_LOAD(5, lower + i, K);
        TILE_PRODUCT(2, 5, 6);
        TILE_PRODUCT(3, 5, 7);
    }
    int32_t sums[4][TILE_ROWS][PANEL] __attribute__((aligned(64)));
    TILE_STORE(0, sums[0]);
    TILE_STORE(1, sums[1]);
    TILE_STORE(2, sums[2]);
    TILE_STORE(3, sums[3]);
    for (int r = 0; r < rows; r++)
        for (int p = 0; p < panels; p++)
            finish_int8(_mm512_load_si512(sums[r / TILE_ROWS * 2 + p][r % TILE_ROWS]), row_scales[r], w,
                        (panel + p) * PANEL, out + (size_t)r * stride, epilogue);
}

static void matmul_int8_amx(const uint8_t *q, const float *row_scales, int rows, const Matrix *w, float *out,
                            size_t stride, Epilogue epilogue) {
    if (rows < MIN_ROWS) {
        matmul_int8(q, row_scales, rows, w, out, stride, epilogue);
        return;
    }
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = TILE_ROWS;
    TILE_CONFIGURE(&config);
    for (int panel = 0; panel < w->panels; panel += 2)
        for (int r = 0; r < rows; r += 2 * TILE_ROWS)
            tiles_int8(q + (size_t)r * (size_t)w->padded_inputs, row_scales + r,
                       rows - r < 2 * TILE_ROWS ? rows - r : 2 * TILE_ROWS, w, panel, w->panels - panel > 1 ? 2 : 1,
                       out + (size_t)r * stride, stride, epilogue);
    TILE_RELEASE();
}
