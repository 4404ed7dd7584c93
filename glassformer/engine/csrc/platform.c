#include "platform.h"

#include <stdint.h>
#include <stdlib.h>

#include "engine.h"
#include "kernels.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>
#elif !defined(__wasm__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/syscall.h>
#endif

/* aligned_alloc asks for whole multiples of the alignment, and may return NULL for nothing. */
static size_t whole_lines(size_t bytes) { return bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT; }

#if defined(_WIN32)
void *allocate_aligned(size_t bytes) { return _aligned_malloc(whole_lines(bytes), ALIGNMENT); }

void free_aligned(void *memory) { _aligned_free(memory); }

/* The path as Windows takes it; the caller frees it. NULL if there is no memory or the path is not UTF-8. */
static wchar_t *wide(const char *path) {
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *converted = length > 0 ? malloc(sizeof *converted * (size_t)length) : NULL;
    if (converted) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, converted, length);
    return converted;
}

FILE *create_file(const char *path) {
    wchar_t *name = wide(path);
    FILE *file = name ? _wfopen(name, L"wb") : NULL;
    free(name);
    return file;
}

/* Map an open file. The mapping stays when its handle is closed. */
static int map_handle(HANDLE file, size_t least, void **data, size_t *size) {
    LARGE_INTEGER length;
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &length) || length.QuadPart < (LONGLONG)least)
        return GF_BAD_FILE;
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping) return GF_IO;
    *data = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
    *size = (size_t)length.QuadPart;
    CloseHandle(mapping);
    return *data ? GF_OK : GF_IO;
}

int map_file(const char *path, size_t least, void **data, size_t *size) {
    wchar_t *name = wide(path);
    if (!name) return GF_IO;
    /* Others may read, rename and delete the file meanwhile, as on other systems. */
    const DWORD shared = FILE_SHARE_READ | FILE_SHARE_DELETE;
    HANDLE file = CreateFileW(name, GENERIC_READ, shared, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    free(name);
    if (file == INVALID_HANDLE_VALUE) return GF_IO;
    const int code = map_handle(file, least, data, size);
    CloseHandle(file);
    return code;
}

void unmap_file(void *data, size_t size) {
    (void)size;
    UnmapViewOfFile(data);
}
#else
void *allocate_aligned(size_t bytes) { return aligned_alloc(ALIGNMENT, whole_lines(bytes)); }

void free_aligned(void *memory) { free(memory); }

#ifndef __wasm__
FILE *create_file(const char *path) { return fopen(path, "wb"); }

int map_file(const char *path, size_t least, void **data, size_t *size) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0) return GF_IO;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < (off_t)least) {
        close(file);
        return GF_BAD_FILE;
    }
    *size = (size_t)status.st_size;
    *data = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return *data == MAP_FAILED ? GF_IO : GF_OK;
}

void unmap_file(void *data, size_t size) { munmap(data, size); }
#endif
#endif

int amx_permitted(void) {
#if defined(__linux__) && defined(__x86_64__)
    return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18) == 0;
#else
    return 0;
#endif
}

/* SDOT came with ARMv8.2 (Cortex-A75); a Raspberry Pi 4 does not have it, every Mac does. */
int has_dot_product(void) {
#if defined(__linux__) && defined(__aarch64__)
    return getauxval(AT_HWCAP) >> 20 & 1; /* HWCAP_ASIMDDP */
#elif defined(_WIN32)
    return IsProcessorFeaturePresent(43 /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */);
#elif defined(__APPLE__)
    return 1;
#else
    return 0;
#endif
}
