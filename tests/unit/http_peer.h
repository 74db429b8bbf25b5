/* http_peer: a server of src/http and its clients in one thread, by turns, over real sockets.
 *
 * Paths of the server, whatever the method; what it saw is in `seen`, one word for each event:
 *	H:PATH on_headers   R:PATH on_request   X:STATUS on_refused   E:1 or E:0 on_end   M on_room
 *
 *	/hello     "hello"                      /echo     the body
 *	/later     keeps it in `waiting`        /stream   a stream (?type=), kept in `waiting`
 *	/file      a file of 100,000 bytes      /empty    a file of 0 bytes
 *	/short     a file with a byte less than told   /nothing  204
 *	/large     64 MiB                       /longfile a file of 8 MiB
 *	/limit     a body of up to 10 bytes     /refuse   401 from on_headers
 *	/in        the body into a file, up to 1,000 bytes
 *	/part      the form's part "file" into a file, up to 1,000 bytes; tells its name and size
 *	/query     the value of ?a=             /headers  how often X-A was sent, and the first */
#ifndef HOTCELL_TESTS_HTTP_PEER_H
#define HOTCELL_TESTS_HTTP_PEER_H

#include "base/buf.h"
#include "http/http.h"

#include <stdbool.h>
#include <stddef.h>

struct served {
	struct http *http;
	struct http_exchange *waiting;
	struct buf seen;
	int file_fd; /* where /in and /part put it */
	bool is_local;
	unsigned short port;
	char path[64];
	bool answers_refusals; /* in words of its own */
};

/* What is 0 in `options` is made to fit. */
void served_open(struct served *s, struct http_options options);
void served_close(struct served *s);
/* One turn of the server, which waits for at most `ms` for something to do. */
void served_turn(struct served *s, int ms);
/* Until `word` was seen. */
void served_wait(struct served *s, const char *word);

struct peer {
	struct served *s;
	int fd;
	struct buf in;
	bool ended; /* the server has closed it */
};

void peer_open(struct peer *p, struct served *s);
void peer_close(struct peer *p);
/* False if the server closed it before all was written. */
bool peer_write(struct peer *p, const void *data, size_t len);
void peer_say(struct peer *p, const char *text);
/* Until that text has come; fails the test if the connection ends first. */
void peer_wait(struct peer *p, const char *text);
void peer_wait_end(struct peer *p);
/* Opens, says, waits for the end, closes; what came, good until the next call. */
const char *peer_ask(struct served *s, const char *text);
const char *peer_ask_bytes(struct served *s, const void *data, size_t len);

#define assert_has(text, part)   assert_non_null(strstr(text, part))
#define assert_hasnt(text, part) assert_null(strstr(text, part))

#endif
