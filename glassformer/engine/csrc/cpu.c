/* The choice of kernels for this CPU, and the texts of errors. */
#include <stdatomic.h>
#include <string.h>

#include "model.h"
#include "platform.h"

#ifdef HAVE_AVX2
#include <cpuid.h>
#endif

/* Fastest first. Each is compiled only where the compiler knows the instruction set. */
static const Kernels *const compiled[] = {
#ifdef HAVE_AMX
    &kernels_amx,
#endif
#ifdef HAVE_AVX512
    &kernels_avx512,
#endif
#ifdef HAVE_AVX2
    &kernels_avx2,
#endif
#ifdef HAVE_NEON
    &kernels_neon,
#endif
#ifdef HAVE_SIMD128
    &kernels_simd128,
#endif
    &kernels_scalar,
};

#ifdef HAVE_AVX2
/* What CPUID reports, as bits of its registers. __builtin_cpu_supports would do, but the library that it needs is not
 * part of zig. */
typedef struct {
    unsigned leaf1_c, leaf7_b, leaf7_c, leaf7_d;
    unsigned saved; /* registers that the operating system saves (XCR0) */
} Features;

static Features features(void) {
    Features f = {0};
    unsigned a, b, d;
    __get_cpuid(1, &a, &b, &f.leaf1_c, &d); /* writes nothing if the CPU does not have the leaf */
    if (f.leaf1_c >> 27 & 1 /* OSXSAVE */) __asm__ volatile("xgetbv" : "=a"(f.saved), "=d"(d) : "c"(0));
    __get_cpuid_count(7, 0, &a, &f.leaf7_b, &f.leaf7_c, &f.leaf7_d);
    return f;
}

/* Whether all bits of a mask are set. */
static int all(unsigned bits, unsigned mask) { return (bits & mask) == mask; }

static int has_avx2(void) {
    const Features f = features();
    return all(f.saved, 1u << 1 | 1u << 2) &&                /* SSE, AVX */
           all(f.leaf1_c, 1u << 12 | 1u << 28 | 1u << 29) && /* FMA, AVX, F16C */
           all(f.leaf7_b, 1u << 5);                          /* AVX2 */
}
#endif

#ifdef HAVE_AVX512
static int has_avx512(void) {
    const Features f = features();
    return has_avx2() && all(f.saved, 7u << 5) &&                       /* mask registers and both parts of ZMM */
           all(f.leaf7_b, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) && /* F, DQ, BW, VL */
           all(f.leaf7_c, 1u << 11);                                    /* VNNI */
}
#endif

#ifdef HAVE_AMX
/* The system lets this process use the tiles. CPUID leaf 0x1D, which describes them, is hidden by some hypervisors and
 * not needed: its only palette has been the same since AMX exists. */
static int has_amx(void) {
#ifdef EMULATE_AMX
    return has_avx512();
#else
    return has_avx512() && all(features().leaf7_d, 1u << 24 | 1u << 25) /* TILE, INT8 */ && amx_permitted();
#endif
}
#endif

static int runs_here(const Kernels *table) {
#ifdef HAVE_AMX
    if (table == &kernels_amx) return has_amx();
#endif
#ifdef HAVE_AVX512
    if (table == &kernels_avx512) return has_avx512();
#endif
#ifdef HAVE_AVX2
    if (table == &kernels_avx2) return has_avx2();
#endif
#ifdef HAVE_NEON
    if (table == &kernels_neon) return has_dot_product();
#endif
    (void)table; /* the others are part of their architecture */
    return 1;
}

static _Atomic(const Kernels *) in_use; /* tests change it while other threads read it */
static char names[128];                 /* of the kernels that run here */

/* Runs when the library is loaded, before any thread can call it. */
__attribute__((constructor)) static void detect(void) {
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        if (runs_here(compiled[i])) {
            if (names[0])
                strcat(names, " ");
            else
                in_use = compiled[i];
            strcat(names, compiled[i]->name);
        }
}

const Kernels *kernels(void) { return atomic_load_explicit(&in_use, memory_order_relaxed); }

const char *gf_instruction_set(void) { return kernels()->name; }

int gf_use_instruction_set(const char *name) {
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        if (strcmp(compiled[i]->name, name) == 0 && runs_here(compiled[i])) {
            in_use = compiled[i];
            return GF_OK;
        }
    return GF_BAD_ARGUMENT;
}

const char *gf_instruction_sets(void) { return names; }

const char *gf_error_text(int code) {
    switch (code) {
    case GF_OK: return "no error";
    case GF_NO_MEMORY: return "out of memory";
    case GF_BAD_ARGUMENT: return "invalid argument";
    case GF_BAD_FILE: return "the packed model is damaged or was written by another version";
    case GF_IO: return "the file could not be read or written";
    case GF_NOT_FINITE: return "the logits are not finite";
    case GF_CANCELLED: return "cancelled";
    default: return "unknown error";
    }
}
