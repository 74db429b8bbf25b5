#include "cli/server.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "config/places.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { KEY_FILE_MAX = 4096, URL_MAX = 2000 };

/* ---- where ---- */

static int take_socket(const char *path, struct server *ret, struct err *e)
{
	const struct sockaddr_un *address = NULL;

	if (path[0] != '/')
		return err_set(e, ERR_INPUT, "server = 'unix:%s': want unix:/PATH", path);
	if (strlen(path) >= sizeof(address->sun_path))
		return err_set(e, ERR_INPUT, "server: a socket's path has at most %zu bytes",
			sizeof(address->sun_path) - 1);
	ret->socket_path = xstrdup(path);
	ret->name = xasprintf("unix:%s", path);
	/* What HTTP calls it; the socket decides where it goes. */
	ret->base = xstrdup("http://localhost");
	return 0;
}

static bool is_url(const char *text)
{
	const char *host = strncasecmp(text, "http://", 7) == 0  ? text + 7 :
			   strncasecmp(text, "https://", 8) == 0 ? text + 8 :
								   "";

	if (!*host || *host == '/' || strlen(text) > URL_MAX || strpbrk(host, "@?#\\"))
		return false;
	for (const char *at = text; *at; at++)
		if (!isgraph((unsigned char)*at))
			return false;
	return true;
}

/* What stands behind the host's colon: NULL if there is none. To be freed. */
static char *port_of(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	const char *end = host + strcspn(host, "/");
	const char *bracket = memchr(host, ']', (size_t)(end - host));
	const char *colon = bracket ? bracket : host;

	colon = memchr(colon, ':', (size_t)(end - colon));
	return colon ? xasprintf("%.*s", (int)(end - colon - 1), colon + 1) : NULL;
}

static bool is_port(const char *text)
{
	return strlen(text) <= 5 && strspn(text, "0123456789") == strlen(text) && atoi(text) >= 1 &&
	       atoi(text) <= 65535;
}

static int take_url(const char *url, struct server *ret, struct err *e)
{
	auto_free char *port = NULL;
	size_t len = strlen(url);

	if (strncmp(url, "unix:", 5) == 0)
		return take_socket(strncmp(url + 5, "//", 2) == 0 ? url + 7 : url + 5, ret, e);
	if (!is_url(url))
		return err_set(e, ERR_INPUT,
			"server = '%.200s': want http://HOST:PORT, https://HOST or unix:/PATH",
			url);
	port = port_of(url);
	if (port && !is_port(port))
		return err_set(e, ERR_INPUT,
			"server = '%.200s': port '%.20s': want a number from 1 to 65535", url,
			port);
	while (len && url[len - 1] == '/')
		len--;
	ret->base = xasprintf("%.*s", (int)len, url);
	ret->name = xstrdup(ret->base);
	return 0;
}

static int find_place(const char *url, struct server *ret, struct err *e)
{
	const char *named = getenv("HOTCELL_SERVER");
	auto_free char *path = NULL;
	struct stat status;

	if (!url && named && *named)
		url = named;
	if (url)
		return take_url(url, ret, e);
	path = places_socket();
	ret->is_default = true;
	if (path && stat(path, &status) == 0 && S_ISSOCK(status.st_mode))
		return places_check_socket(path, e) ? -1 : take_socket(path, ret, e);
	return err_set(e, ERR_NOT_FOUND,
		"no service is running here (there is no socket '%s'): start one with 'hotcell serve', "
		"or name one with --server URL or HOTCELL_SERVER",
		path ? path : "");
}

/* ---- the key ---- */

static char *key_file_path(void)
{
	const char *config = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");

	if (config && config[0] == '/')
		return xasprintf("%s/hotcell/key", config);
	return home && home[0] == '/' ? xasprintf("%s/.config/hotcell/key", home) : NULL;
}

static int check_key(char *key, const char *from, struct err *e)
{
	size_t len = strlen(key);

	while (len && isspace((unsigned char)key[len - 1]))
		key[--len] = '\0';
	if (!len)
		return err_set(e, ERR_INPUT, "%s: the key is empty", from);
	/* It becomes a line of a request. */
	for (const char *at = key; *at; at++)
		if (!isgraph((unsigned char)*at))
			return err_set(e, ERR_INPUT, "%s: that is no key", from);
	return 0;
}

/* Whether what is sent there stays on this machine, or is sealed on its way. */
static bool is_private(const char *base)
{
	static const char *const near[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *host = base + strlen("http://");

	if (strncasecmp(base, "https://", 8) == 0)
		return true;
	for (size_t i = 0; i < COUNT(near); i++) {
		size_t len = strlen(near[i]);

		if (strncasecmp(host, near[i], len) == 0 && strchr(":/", host[len]))
			return true;
	}
	return false;
}

static int read_key_file(struct server *ret, struct err *e)
{
	auto_free char *path = key_file_path();
	auto_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	char text[KEY_FILE_MAX + 1] = "";
	struct stat status;
	ssize_t len;

	if (fd < 0 && (!path || errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &status))
		return err_sys(e, "key file '%s'", path);
	if (!S_ISREG(status.st_mode))
		return err_set(e, ERR_INPUT, "key file '%s': it is no regular file", path);
	if ((status.st_mode & 077) || status.st_uid != geteuid())
		return err_set(e, ERR_INPUT,
			"key file '%s': others can read it or have made it; it must be yours and have mode 0600",
			path);
	if (!is_private(ret->base))
		return err_set(e, ERR_INPUT,
			"the key of '%s' is not sent to %s in the clear: use https://, or give it with --key",
			path, ret->name);
	len = read(fd, text, KEY_FILE_MAX);
	if (len < 0)
		return err_sys(e, "key file '%s'", path);
	if (check_key(text, path, e))
		return -1;
	ret->key = xstrdup(text);
	return 0;
}

static int find_key(const char *key, struct server *ret, struct err *e)
{
	const char *named = getenv("HOTCELL_API_KEY");
	bool is_given = key != NULL;

	if (!is_given && named && *named)
		key = named;
	if (key) {
		ret->key = xstrdup(key);
		return check_key(ret->key, is_given ? "--key" : "HOTCELL_API_KEY", e);
	}
	/* On a socket the kernel says who we are. */
	return ret->socket_path ? 0 : read_key_file(ret, e);
}

int server_find(const struct server_options *options, struct server *ret, struct err *e)
{
	*ret = (struct server){ 0 };
	if (find_place(options->url, ret, e) == 0 && find_key(options->key, ret, e) == 0)
		return 0;
	server_free(ret);
	return -1;
}

void server_free(struct server *s)
{
	free(s->name);
	free(s->base);
	free(s->socket_path);
	free(s->key);
	*s = (struct server){ 0 };
}
