/* What the GPU's ceiling kernels share: CUDA's and HIP's names, timing, and errors.
 *
 * solve() measures by itself: it allocates what it needs, times with events, and leaves its figures
 * in an output array. A figure of 0 says that this device can't do it.
 */
#ifndef ROOFSMITH_CEILING_GPU_H
#define ROOFSMITH_CEILING_GPU_H

#include <cstddef>
#include <vector>

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define hipDevAttrMultiProcessorCount hipDeviceAttributeMultiprocessorCount
#define hipDevAttrComputeCapabilityMajor hipDeviceAttributeComputeCapabilityMajor
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#endif

struct Device {
    int multiprocessors = 0;
    int major = 0; /* of its compute capability */

    Device() {
        int device = 0;
        GPU(GetDevice)(&device);
        GPU(DeviceGetAttribute)
        (&multiprocessors, GPU(DevAttrMultiProcessorCount), device);
        GPU(DeviceGetAttribute)(&major, GPU(DevAttrComputeCapabilityMajor), device);
    }
};

/* Seconds between begin() and end(), by the device's clock; below 0 after an error. */
class Timer {
  public:
    Timer() {
        GPU(EventCreate)(&first);
        GPU(EventCreate)(&last);
    }
    ~Timer() {
        GPU(EventDestroy)(first);
        GPU(EventDestroy)(last);
    }
    Timer(const Timer &) = delete;
    Timer &operator=(const Timer &) = delete;

    void begin() { GPU(EventRecord)(first, 0); }

    double end() {
        float milliseconds = 0;
        GPU(EventRecord)(last, 0);
        bool good = GPU(EventSynchronize)(last) == GPU(Success);
        good = good && GPU(EventElapsedTime)(&milliseconds, first, last) == GPU(Success);
        good = GPU(GetLastError)() == GPU(Success) && good;
        return good ? milliseconds * 1e-3 : -1.0;
    }

  private:
    GPU(Event_t) first, last;
};

/* Device memory that is given back. */
class Memory {
  public:
    explicit Memory(size_t size_bytes) {
        if (GPU(Malloc)(&base, size_bytes) != GPU(Success)) {
            GPU(GetLastError)();
            base = nullptr;
        }
    }
    ~Memory() { GPU(Free)(base); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    void *base = nullptr;
};

/* Work per second of `run(repeats)`, which does `work` `repeats` times in at least `least_s`.
 *
 * Repeats grow until they take that long, so that what happens once (launching, filling tiles) is
 * little of the time. */
template <class Run> double rate_of(double work, double least_s, Run run) {
    const int most = 1000000;
    Timer timer;
    run(1);
    for (int repeats = 1;;) {
        timer.begin();
        run(repeats);
        const double time_s = timer.end();
        if (time_s <= 0) {
            return 0;
        }
        if (time_s >= least_s || repeats == most) {
            return work * repeats / time_s;
        }
        const double wanted = 1.2 * repeats * (least_s / time_s) + 1;
        repeats = wanted < most ? static_cast<int>(wanted) : most;
    }
}

/* To or from an array that solve() was given, wherever it is. */
template <class T> void put(T *array, const std::vector<T> &values) {
    GPU(Memcpy)(array, values.data(), values.size() * sizeof(T), GPU(MemcpyDefault));
}
template <class T> std::vector<T> take(const T *array, int count) {
    std::vector<T> values(count);
    GPU(Memcpy)(values.data(), array, values.size() * sizeof(T), GPU(MemcpyDefault));
    return values;
}

#endif
