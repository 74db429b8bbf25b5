#include "wire/vmm_warm.h"

#include <stddef.h>
#include <sys/random.h>

bool warm_make_seed(uint8_t ret[WARM_SEED_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t bytes[WARM_SEED_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return false;
	for (size_t i = 0; i < WARM_SEED_BYTES; i++) {
		ret[2 * i] = (uint8_t)digits[bytes[i] >> 4];
		ret[2 * i + 1] = (uint8_t)digits[bytes[i] & 15];
	}
	return true;
}
