/* What depends on the operating system: aligned memory, packed files, and features of the CPU that the system reports.
 * Everything else is C11. */
#ifndef GLASSFORMER_PLATFORM_H
#define GLASSFORMER_PLATFORM_H

#include <stddef.h>
#include <stdio.h>

/* Memory at a multiple of ALIGNMENT bytes; NULL if there is none. Only free_aligned may free it: Windows keeps it apart
 * from the memory of malloc. */
void *allocate_aligned(size_t bytes);
void free_aligned(void *memory);

#ifndef __wasm__
/* Paths are UTF-8 on Windows, and bytes as the file system has them elsewhere. */
FILE *create_file(const char *path);

/* Map a regular file of at least `least` bytes for reading. GF_IO if it cannot be read, GF_BAD_FILE if it is smaller or
 * not a file. */
int map_file(const char *path, size_t least, void **data, size_t *size);
void unmap_file(void *data, size_t size);
#endif

/* Whether the system lets this process use the AMX tiles that the CPU has, and whether an ARM CPU has SDOT. */
int amx_permitted(void);
int has_dot_product(void);

#endif
