#include "testing.h"

#include "base/own.h"
#include "service/key.h"

static const char known[] = "hc_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

static void a_key_has_its_form_and_is_never_the_same(void **state)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	char seen[64][KEY_LEN + 1];
	bool used[256] = { false };
	unsigned count = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(seen); i++) {
		uint8_t hash[KEY_HASH_SIZE];
		struct err e = { 0 };

		assert_int_equal(key_make(seen[i], &e), 0);
		assert_int_equal(strlen(seen[i]), KEY_LEN);
		assert_memory_equal(seen[i], "hc_", 3);
		assert_int_equal(strspn(seen[i] + 3, letters), KEY_LEN - 3);
		assert_int_equal(key_hash(seen[i], KEY_LEN, hash), 0);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(seen[i], seen[j]);
		for (size_t j = 3; j < KEY_LEN; j++)
			used[(unsigned char)seen[i][j]] = true;
		/* 32 bytes are 42 letters and 4 bits. */
		assert_non_null(strchr("AEIMQUYcgkosw048", seen[i][KEY_LEN - 1]));
	}
	for (size_t i = 0; i < sizeof(letters) - 1; i++)
		count += used[(unsigned char)letters[i]];
	assert_int_equal(
		count, 64); /* 2752 letters of 64: that one is missing happens once in 10^17 */
}

static void what_is_kept_is_its_sha_256(void **state)
{
	/* printf %s hc_AAEC... | sha256sum */
	static const char want[] =
		"738a5d1fa658398b4a0cfff6d8c2baf8463c4e8bfc8bd6bc087acc3adc6c2f32";
	uint8_t hash[KEY_HASH_SIZE];
	char text[2 * KEY_HASH_SIZE + 1];

	(void)state;
	assert_int_equal(key_hash(known, KEY_LEN, hash), 0);
	for (int i = 0; i < KEY_HASH_SIZE; i++)
		sprintf(text + 2 * i, "%02x", hash[i]);
	assert_string_equal(text, want);
}

static void what_has_not_the_form_of_a_key_has_no_hash(void **state)
{
	uint8_t hash[KEY_HASH_SIZE];
	char text[KEY_LEN + 2];

	(void)state;
	assert_int_equal(key_hash("", 0, hash), -1);
	assert_int_equal(key_hash(known, KEY_LEN - 1, hash), -1);
	memcpy(text, known, sizeof(known));
	text[0] = 'H';
	assert_int_equal(key_hash(text, KEY_LEN, hash), -1);
	for (int c = 0; c < 256; c++) {
		bool fine = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			    (c >= 'A' && c <= 'Z') || c == '-' || c == '_';

		memcpy(text, known, sizeof(known));
		text[20] = (char)c;
		assert_int_equal(key_hash(text, KEY_LEN, hash), fine ? 0 : -1);
	}
	memset(text, 'A', sizeof(text));
	memcpy(text, "hc_", 3);
	assert_int_equal(key_hash(text, KEY_LEN + 1, hash), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_key_has_its_form_and_is_never_the_same),
		TEST(what_is_kept_is_its_sha_256),
		TEST(what_has_not_the_form_of_a_key_has_no_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
