#include "testing.h"

#include "base/own.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct frame_out out;
static uint8_t buffer[FRAME_MAX];

struct pair {
	int ends[2];
};

static int pair_make(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->ends), 0);
	*state = p;
	return 0;
}

static int pair_clear(void **state)
{
	struct pair *p = *state;

	own_close(&p->ends[0]);
	own_close(&p->ends[1]);
	free(p);
	return 0;
}

#define TEST_WITH_PAIR(name) cmocka_unit_test_setup_teardown(name, pair_make, pair_clear)

/* What `out` says, as the other side would see it. */
static struct frame_in read_back(void)
{
	assert_false(out.overflow);
	return (struct frame_in){ .at = out.bytes + 1, .end = out.bytes + out.len };
}

static void what_was_put_comes_out_in_order(void **state)
{
	struct frame_in in;
	size_t len;

	(void)state;
	frame_begin(&out, 7);
	frame_put_u8(&out, 0xff);
	frame_put_u32(&out, 0xfffffffe);
	frame_put_u64(&out, 0xfffffffffffffffdULL);
	frame_put_string(&out, "text");
	frame_put_string(&out, "");
	frame_put_bytes(&out, "a\0b", 3);
	frame_put_bytes(&out, NULL, 0);
	assert_int_equal(out.bytes[0], 7);
	in = read_back();
	assert_int_equal(frame_get_u8(&in), 0xff);
	assert_int_equal(frame_get_u32(&in), 0xfffffffe);
	assert_true(frame_get_u64(&in) == 0xfffffffffffffffdULL);
	assert_string_equal(frame_get_string(&in), "text");
	assert_string_equal(frame_get_string(&in), "");
	assert_memory_equal(frame_get_bytes(&in, &len), "a\0b", 3);
	assert_int_equal(len, 3);
	frame_get_bytes(&in, &len);
	assert_int_equal(len, 0);
	assert_true(frame_in_done(&in));
}

static void integers_are_little_endian_on_every_machine(void **state)
{
	static const uint8_t want[] = { 9, 1, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1 };

	(void)state;
	frame_begin(&out, 9);
	frame_put_u8(&out, 1);
	frame_put_u32(&out, 0x01020304);
	frame_put_u64(&out, 0x0102030405060708ULL);
	assert_int_equal(out.len, sizeof(want));
	assert_memory_equal(out.bytes, want, sizeof(want));
}

static void reading_past_the_end_is_bad_and_stays_bad(void **state)
{
	static const uint8_t bytes[] = { 1, 2, 3 };
	struct frame_in in = { .at = bytes, .end = bytes + sizeof(bytes) };
	size_t len = 99;

	(void)state;
	assert_int_equal(frame_get_u32(&in), 0);
	assert_true(in.bad);
	assert_int_equal(frame_get_u8(&in), 0);
	assert_int_equal(frame_get_u64(&in), 0);
	assert_string_equal(frame_get_string(&in), "");
	assert_null(frame_get_bytes(&in, &len));
	assert_int_equal(len, 0);
	assert_false(frame_in_done(&in));
}

static void bytes_left_over_make_a_frame_bad(void **state)
{
	struct frame_in in;

	(void)state;
	frame_begin(&out, 1);
	frame_put_u32(&out, 5);
	frame_put_u8(&out, 0);
	in = read_back();
	assert_int_equal(frame_get_u32(&in), 5);
	assert_false(in.bad);
	assert_false(frame_in_done(&in));
}

/* A string field with exactly these bytes, NUL or not. */
static bool takes_as_string(const char *bytes, size_t len)
{
	struct frame_in in;
	const char *text;

	frame_begin(&out, 1);
	frame_put_bytes(&out, bytes, len);
	in = read_back();
	text = frame_get_string(&in);
	if (!frame_in_done(&in))
		assert_string_equal(text, "");
	return frame_in_done(&in);
}

static void a_string_ends_with_its_only_nul(void **state)
{
	(void)state;
	assert_true(takes_as_string("ab", 3));
	assert_true(takes_as_string("", 1));
	assert_false(takes_as_string("ab", 2));
	assert_false(takes_as_string("a\0b", 4));
	assert_false(takes_as_string("\0\0", 2));
	assert_false(takes_as_string("", 0));
}

static void a_length_that_is_larger_than_the_frame_is_bad(void **state)
{
	static const uint32_t lengths[] = { 5, 0x7fffffff, 0x80000000, 0xffffffff };

	(void)state;
	for (size_t i = 0; i < COUNT(lengths); i++) {
		struct frame_in in;
		size_t len;

		frame_begin(&out, 1);
		frame_put_u32(&out, lengths[i]);
		frame_put_u32(&out, 0x00636261);
		in = read_back();
		assert_null(frame_get_bytes(&in, &len));
		assert_true(in.bad);
		in = read_back();
		assert_string_equal(frame_get_string(&in), "");
		assert_true(in.bad);
	}
}

static void a_frame_that_is_too_large_is_not_sent(void **state)
{
	const struct pair *p = *state;
	static uint8_t data[FRAME_MAX];
	uint8_t type;
	struct frame_in in;

	frame_begin(&out, 1);
	frame_put_bytes(&out, data, FRAME_MAX - 5);
	assert_false(out.overflow);
	assert_int_equal(out.len, FRAME_MAX);
	frame_put_u8(&out, 1);
	assert_true(out.overflow);
	assert_int_equal(frame_send(p->ends[0], &out, -1), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_int_equal(frame_recv(p->ends[1], buffer, MSG_DONTWAIT, &type, &in, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	/* A new frame begins without the old one's mishap. */
	frame_begin(&out, 2);
	assert_int_equal(frame_send(p->ends[0], &out, -1), 0);
	frame_begin(&out, 1);
	frame_put_bytes(&out, data, FRAME_MAX);
	assert_true(out.overflow);
	frame_put_bytes(&out, data, SIZE_MAX);
	assert_true(out.overflow);
}

static void frames_arrive_whole_and_one_at_a_time(void **state)
{
	const struct pair *p = *state;
	static uint8_t data[FRAME_MAX - 5];
	struct frame_in in;
	uint8_t type;
	size_t len;

	memset(data, 0x5a, sizeof(data));
	frame_begin(&out, 200);
	frame_put_bytes(&out, data, sizeof(data));
	assert_int_equal(frame_send(p->ends[0], &out, -1), 0);
	frame_begin(&out, 3);
	assert_int_equal(frame_send(p->ends[0], &out, -1), 0);

	assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, NULL), 1);
	assert_int_equal(type, 200);
	assert_memory_equal(frame_get_bytes(&in, &len), data, sizeof(data));
	assert_int_equal(len, sizeof(data));
	assert_true(frame_in_done(&in));
	assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, NULL), 1);
	assert_int_equal(type, 3);
	assert_true(frame_in_done(&in));
}

static void a_packet_that_is_larger_than_a_frame_is_refused(void **state)
{
	const struct pair *p = *state;
	static uint8_t data[FRAME_MAX + 1];
	struct frame_in in;
	uint8_t type;

	assert_int_equal(send(p->ends[0], data, sizeof(data), 0), sizeof(data));
	assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, NULL), -1);
	assert_int_equal(errno, EBADMSG);
}

static void the_end_of_the_connection_is_not_an_error(void **state)
{
	struct pair *p = *state;
	struct frame_in in;
	uint8_t type;

	close(take_fd(&p->ends[0]));
	assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, NULL), 0);
}

static void sending_to_nobody_fails_without_a_signal(void **state)
{
	struct pair *p = *state;

	close(take_fd(&p->ends[1]));
	frame_begin(&out, 1);
	assert_int_equal(frame_send(p->ends[0], &out, -1), -1);
	assert_int_equal(errno, EPIPE);
}

static void a_full_socket_says_eagain(void **state)
{
	const struct pair *p = *state;

	fcntl(p->ends[0], F_SETFL, O_NONBLOCK);
	frame_begin(&out, 1);
	while (frame_send(p->ends[0], &out, -1) == 0)
		;
	assert_int_equal(errno, EAGAIN);
}

static void a_descriptor_travels_with_a_frame_and_closes_on_exec(void **state)
{
	const struct pair *p = *state;
	unsigned before = count_open_fds();
	struct stat want;
	struct stat got;
	struct frame_in in;
	uint8_t type;
	int fd = 99;

	assert_int_equal(fstat(p->ends[0], &want), 0);
	frame_begin(&out, 4);
	assert_int_equal(frame_send(p->ends[0], &out, p->ends[0]), 0);
	assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, &fd), 1);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &got), 0);
	assert_int_equal(got.st_ino, want.st_ino);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(count_open_fds(), before);
}

static void no_descriptor_is_told_as_minus_one(void **state)
{
	const struct pair *p = *state;
	struct frame_in in;
	uint8_t type;
	int fd = 99;

	frame_begin(&out, 4);
	assert_int_equal(frame_send(p->ends[0], &out, -1), 0);
	assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, &fd), 1);
	assert_int_equal(fd, -1);
}

static void a_descriptor_that_was_not_asked_for_makes_the_frame_bad(void **state)
{
	const struct pair *p = *state;
	unsigned before = count_open_fds();
	struct frame_in in;
	uint8_t type;

	frame_begin(&out, 4);
	assert_int_equal(frame_send(p->ends[0], &out, p->ends[0]), 0);
	assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, NULL), -1);
	assert_int_equal(errno, EBADMSG);
	assert_int_equal(count_open_fds(), before);
}

static void send_with_fds(int sock, const void *data, size_t len, int fd, int count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = { .bytes = { 0 } };
	struct iovec part = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int)),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
	for (int i = 0; i < count; i++)
		memcpy(CMSG_DATA(header) + (size_t)i * sizeof(int), &fd, sizeof(int));
	assert_int_equal(sendmsg(sock, &message, 0), len);
}

static void more_than_one_descriptor_is_refused_and_none_is_kept(void **state)
{
	const struct pair *p = *state;
	unsigned before = count_open_fds();

	for (int count = 2; count <= 8; count++) {
		struct frame_in in;
		uint8_t type;
		int fd = 99;

		send_with_fds(p->ends[0], "\4", 1, p->ends[0], count);
		assert_int_equal(frame_recv(p->ends[1], buffer, 0, &type, &in, &fd), -1);
		assert_int_equal(errno, EBADMSG);
		assert_int_equal(fd, -1);
		assert_int_equal(count_open_fds(), before);
	}
}

static void a_descriptor_on_an_empty_packet_is_not_kept(void **state)
{
	const struct pair *p = *state;
	unsigned before = count_open_fds();
	struct frame_in in;
	uint8_t type;
	int fd = 99;

	send_with_fds(p->ends[0], "", 0, p->ends[0], 1);
	assert_true(frame_recv(p->ends[1], buffer, 0, &type, &in, &fd) <= 0);
	assert_int_equal(fd, -1);
	assert_int_equal(count_open_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_put_comes_out_in_order),
		TEST(integers_are_little_endian_on_every_machine),
		TEST(reading_past_the_end_is_bad_and_stays_bad),
		TEST(bytes_left_over_make_a_frame_bad),
		TEST(a_string_ends_with_its_only_nul),
		TEST(a_length_that_is_larger_than_the_frame_is_bad),
		TEST_WITH_PAIR(a_frame_that_is_too_large_is_not_sent),
		TEST_WITH_PAIR(frames_arrive_whole_and_one_at_a_time),
		TEST_WITH_PAIR(a_packet_that_is_larger_than_a_frame_is_refused),
		TEST_WITH_PAIR(the_end_of_the_connection_is_not_an_error),
		TEST_WITH_PAIR(sending_to_nobody_fails_without_a_signal),
		TEST_WITH_PAIR(a_full_socket_says_eagain),
		TEST_WITH_PAIR(a_descriptor_travels_with_a_frame_and_closes_on_exec),
		TEST_WITH_PAIR(no_descriptor_is_told_as_minus_one),
		TEST_WITH_PAIR(a_descriptor_that_was_not_asked_for_makes_the_frame_bad),
		TEST_WITH_PAIR(more_than_one_descriptor_is_refused_and_none_is_kept),
		TEST_WITH_PAIR(a_descriptor_on_an_empty_packet_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
