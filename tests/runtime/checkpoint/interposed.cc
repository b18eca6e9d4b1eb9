#include "tests/runtime/checkpoint/interposed.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipewright::testing {
namespace {

Mishap mishap = Mishap::None;
int calls = 0, mishap_at = 0;

// True if the call is to fail.
bool counted(bool needs_room) {
  ++calls;
  if (mishap == Mishap::Death && calls == mishap_at) ::_exit(99);
  return mishap == Mishap::NoRoom && needs_room && calls >= mishap_at;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void arm(Mishap what, int at) {
  mishap = what;
  mishap_at = at;
  calls = 0;
}

int num_calls() { return calls; }

namespace {

int no_room() {
  errno = ENOSPC;
  return -1;
}

}  // namespace
}  // namespace pipewright::testing

using pipewright::testing::counted;
using pipewright::testing::next;
using pipewright::testing::no_room;

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (fd > 2 && counted(true)) return no_room();
  return real(fd, bytes, size);
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  counted(false);
  return real(fd);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  counted(false);
  return real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) {
  static const auto real =
      next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  counted(false);
  return real(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  static const auto real = next<int (*)(const char*)>("unlink");
  counted(false);
  return real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  counted(false);
  return real(folder, path, flags);
}

int remove(const char* path) {
  static const auto real = next<int (*)(const char*)>("remove");
  counted(false);
  return real(path);
}

int rmdir(const char* path) {
  static const auto real = next<int (*)(const char*)>("rmdir");
  counted(false);
  return real(path);
}

int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  counted(false);
  return real(path, mode);
}

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (flags & O_CREAT) counted(false);
  return real(path, flags, mode);
}

}  // extern "C"
