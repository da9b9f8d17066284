/* A whole set of registers for PTRACE_SETREGSET, where the processor has more of them (AMX) than Linux 6.1 for
   user mode knows: the kernel of the host refuses a part. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#define XSTATE 0x202
long ptrace(enum __ptrace_request request, ...) {
    static long (*next)(int, int, void *, void *);
    static char all[1 << 16];
    va_list list;
    va_start(list, request);
    int pid = va_arg(list, int);
    void *address = va_arg(list, void *), *data = va_arg(list, void *);
    va_end(list);
    if (!next) next = dlsym(RTLD_NEXT, "ptrace");
    long answer = next(request, pid, address, data);
    if (answer == -1 && errno == EFAULT && request == PTRACE_SETREGSET && (long)address == XSTATE) {
        struct iovec *part = data, whole = {all, sizeof all};
        if (next(PTRACE_GETREGSET, pid, address, &whole) == -1) return -1;
        memcpy(all, part->iov_base, part->iov_len);
        answer = next(request, pid, address, &whole);
    }
    return answer;
}
