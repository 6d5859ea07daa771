/* CRC-32 of zip and gzip (reflected polynomial 0xEDB88320). Carry-less multiplication where the CPU has it,
   eight tables otherwise; both give the same number. */
#ifndef TG_CRC_H
#define TG_CRC_H

#include <stddef.h>
#include <stdint.h>

/* CRC of what gave `crc` so far (0 at the start) followed by data(n). */
uint32_t tg_crc32(uint32_t crc, const uint8_t *data, size_t n);

/* The same by tables only: what tg_crc32 falls back to. */
uint32_t tg_crc32_tables(uint32_t crc, const uint8_t *data, size_t n);

#endif
