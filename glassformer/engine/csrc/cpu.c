/* The choice of kernels for this CPU, and the texts of errors. */
#include <stdatomic.h>
#include <string.h>

#include "model.h"

#if defined(HAVE_AMX) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(HAVE_NEON) && defined(__linux__)
#include <sys/auxv.h>
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

#ifdef HAVE_AVX512
static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

#ifdef HAVE_AMX
/* The CPU has tiles (CPUID 7: AMX-TILE, AMX-INT8) and the kernel lets this process use them. Leaf 0x1D, which describes
 * the tiles, is hidden by some hypervisors and not needed: its only palette has been the same since AMX exists. */
static int has_amx(void) {
#ifdef EMULATE_AMX
    return has_avx512();
#elif defined(__linux__)
    unsigned a, b, c, d;
    if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return (d >> 24 & 1) && (d >> 25 & 1) && syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18) == 0;
#else
    return 0;
#endif
}
#endif

#ifdef HAVE_NEON
/* SDOT came with ARMv8.2 (Cortex-A75); a Raspberry Pi 4 does not have it, every Mac does. */
static int has_dot_product(void) {
#ifdef __linux__
    return getauxval(AT_HWCAP) >> 20 & 1; /* HWCAP_ASIMDDP */
#elif defined(__APPLE__)
    return 1;
#else
    return 0;
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
    if (table == &kernels_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
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
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
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
