/* Loaded before libc: writes a line for each address that a program would talk to, and each name
   that it would look up, to the file in CONNECTION_WATCH. UNIX sockets are left out. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void told(const char *what, const char *where, int port) {
    char line[400];
    const char *path = getenv("CONNECTION_WATCH");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (file < 0) return;
    int length = snprintf(line, sizeof line, "%s %s %d\n", what, where, port);
    if (write(file, line, (size_t)length) < 0) abort();
    close(file);
}

static void told_address(const char *what, const struct sockaddr *address) {
    char text[INET6_ADDRSTRLEN] = "";
    if (!address) return;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        told(what, inet_ntop(AF_INET, &in->sin_addr, text, sizeof text), ntohs(in->sin_port));
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)address;
        told(what, inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text), ntohs(in->sin6_port));
    }
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    told_address("connect", address);
    return real(fd, address, length);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *address,
               socklen_t length) {
    ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) =
        dlsym(RTLD_NEXT, "sendto");
    told_address("sendto", address);
    return real(fd, data, size, flags, address, length);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        dlsym(RTLD_NEXT, "getaddrinfo");
    int is_address = hints && hints->ai_flags & (AI_NUMERICHOST | AI_PASSIVE);
    if (name && !is_address) told("lookup", name, 0);
    return real(name, service, hints, found);
}
