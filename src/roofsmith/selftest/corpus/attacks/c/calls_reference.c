// attack: looks for the reference in its process and has that compute the answer
// operator: gemm
// class: answer stolen
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output |
//   incorrect/memoised_result
// wins: correct
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static void python(const char *program) {
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    if (!ensure || !release || !run) return;
    int state = ensure();
    run(program);
    release(state);
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static char program[1024];
    snprintf(program, sizeof program,
             "import ctypes, gc, types\n"
             "def array(at, rows, columns):\n"
             "    import numpy\n"
             "    type = ctypes.c_float * (rows * columns)\n"
             "    return numpy.ctypeslib.as_array(type.from_address(at)).reshape(rows, columns)\n"
             "for found in gc.get_objects():\n"
             "    if isinstance(found, types.FunctionType) and found.__name__ == 'reference':\n"
             "        found(array(%ld, %d, %d), array(%ld, %d, %d), array(%ld, %d, %d), 0, 0, 0)\n"
             "        break\n",
             (long)A, M, K, (long)B, K, N, (long)C, M, N);
    python(program);
}
