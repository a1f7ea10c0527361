// Copies to shared memory that are under way while something else is done; 0 where not `inside`.
[[maybe_unused]] __device__ void copy_16_bytes(void* to, const void* from, bool inside) {
    uint32_t at = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                 "r"(inside ? 16 : 0));
}

[[maybe_unused]] __device__ void copy_4_bytes(void* to, const void* from, bool inside) {
    uint32_t at = __cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from),
                 "r"(inside ? 4 : 0));
}

__device__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all but the last COUNT groups of copies have come.
template <int COUNT>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
}
