/* A slow or salted hash is for secrets that people choose. A key is 256 random bits: nobody can try them, two are never
 * the same, and each request of a client costs a hash. So one round of SHA-256, and the store finds a key by it. How
 * long the search takes tells something about hashes, but nothing about keys. */
#define OPENSSL_SUPPRESS_DEPRECATED /* the short way to SHA-256, without loading algorithms by name from modules */
#include "service/key.h"

#include <assert.h>
#include <errno.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/random.h>

static_assert(KEY_HASH_SIZE == SHA256_DIGEST_LENGTH, "what is kept is a SHA-256");

enum { SECRET_SIZE = 32 };

static const char prefix[] = "hc_";
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Without padding: the last letter has 4 bits of the last byte. */
static void encode(const uint8_t bytes[SECRET_SIZE], char *ret)
{
	unsigned bits = 0;
	unsigned have = 0;

	for (int i = 0; i < SECRET_SIZE; i++) {
		bits = bits << 8 | bytes[i];
		have += 8;
		while (have >= 6) {
			have -= 6;
			*ret++ = letters[bits >> have & 63];
		}
	}
	*ret++ = letters[bits << (6 - have) & 63];
	*ret = '\0';
}

int key_make(char ret[KEY_LEN + 1], struct err *e)
{
	uint8_t secret[SECRET_SIZE];

	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return err_sys(e, "get random bytes");
	strcpy(ret, prefix);
	encode(secret, ret + strlen(prefix));
	explicit_bzero(secret, sizeof(secret));
	return 0;
}

int key_hash(const char *text, size_t len, uint8_t ret[KEY_HASH_SIZE])
{
	SHA256_CTX sum;

	if (len != KEY_LEN || memcmp(text, prefix, strlen(prefix)) != 0)
		return -1;
	for (size_t i = strlen(prefix); i < len; i++)
		if (!text[i] || !strchr(letters, text[i]))
			return -1;
	if (!SHA256_Init(&sum) || !SHA256_Update(&sum, text, len) || !SHA256_Final(ret, &sum))
		return -1;
	return 0;
}
