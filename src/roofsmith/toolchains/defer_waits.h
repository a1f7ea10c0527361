/* Included before every CUDA and HIP kernel file.
 *
 * Kernel files often end solve() with cudaDeviceSynchronize(). The judge queues many calls and waits
 * for all of them itself; a wait in each would measure launches instead of kernels. While
 * roofsmith_defer_waits is not zero, waiting for the device or for the default stream returns at
 * once, with the error that is known by then. Otherwise nothing changes.
 *
 * The default stream waits for every blocking stream, and the judge waits for the default stream. A
 * stream that was made with cudaStreamNonBlocking escapes that, so a library that makes one keeps
 * its waits: roofsmith_own_streams says so.
 *
 * A launch that the runtime refuses doesn't say so by itself: roofsmith_refused() does, afterwards.
 */
#ifndef ROOFSMITH_DEFER_WAITS_H
#define ROOFSMITH_DEFER_WAITS_H

#ifdef __HIP__
#include <hip/hip_runtime.h>
#define ROOFSMITH_GPU(name) hip##name
#else
#include <cuda_runtime.h>
#define ROOFSMITH_GPU(name) cuda##name
#endif

extern "C" {
/* Weak: several files of one library share one copy. */
__attribute__((weak, visibility("default"))) int roofsmith_defer_waits = 0;
__attribute__((weak, visibility("default"))) int roofsmith_own_streams = 0;

/* Name of the last error that a call of this library got from the runtime, once; NULL without. */
__attribute__((weak, visibility("default"))) const char *roofsmith_refused() {
    ROOFSMITH_GPU(Error_t) error = ROOFSMITH_GPU(GetLastError)();
    return error == ROOFSMITH_GPU(Success) ? nullptr : ROOFSMITH_GPU(GetErrorName)(error);
}
}

static inline ROOFSMITH_GPU(Error_t) roofsmith_wait_device() {
    if (roofsmith_defer_waits && !roofsmith_own_streams) {
        return ROOFSMITH_GPU(PeekAtLastError)();
    }
    return ROOFSMITH_GPU(DeviceSynchronize)();
}

static inline ROOFSMITH_GPU(Error_t) roofsmith_wait_stream(ROOFSMITH_GPU(Stream_t) stream) {
#ifdef __HIP__
    bool is_default = stream == nullptr;
#else
    bool is_default = stream == nullptr || stream == cudaStreamLegacy;
#endif
    if (is_default && roofsmith_defer_waits && !roofsmith_own_streams) {
        return ROOFSMITH_GPU(PeekAtLastError)();
    }
    return ROOFSMITH_GPU(StreamSynchronize)(stream);
}

static inline ROOFSMITH_GPU(Error_t)
    roofsmith_make_stream(ROOFSMITH_GPU(Stream_t) * stream, unsigned int flags) {
    roofsmith_own_streams |= (flags & ROOFSMITH_GPU(StreamNonBlocking)) != 0;
    return ROOFSMITH_GPU(StreamCreateWithFlags)(stream, flags);
}

static inline ROOFSMITH_GPU(Error_t) roofsmith_make_stream_with_priority(
    ROOFSMITH_GPU(Stream_t) * stream, unsigned int flags, int priority) {
    roofsmith_own_streams |= (flags & ROOFSMITH_GPU(StreamNonBlocking)) != 0;
    return ROOFSMITH_GPU(StreamCreateWithPriority)(stream, flags, priority);
}

#undef ROOFSMITH_GPU
#ifdef __HIP__
#define hipDeviceSynchronize() roofsmith_wait_device()
#define hipStreamSynchronize(...) roofsmith_wait_stream(__VA_ARGS__)
#define hipStreamCreateWithFlags(...) roofsmith_make_stream(__VA_ARGS__)
#define hipStreamCreateWithPriority(...) roofsmith_make_stream_with_priority(__VA_ARGS__)
#else
#define cudaDeviceSynchronize() roofsmith_wait_device()
#define cudaStreamSynchronize(...) roofsmith_wait_stream(__VA_ARGS__)
#define cudaStreamCreateWithFlags(...) roofsmith_make_stream(__VA_ARGS__)
#define cudaStreamCreateWithPriority(...) roofsmith_make_stream_with_priority(__VA_ARGS__)
#endif

#endif
