// Neighbours in memory.
template <class T, int COUNT>
struct alignas(sizeof(T) * COUNT) Packed {
    T at[COUNT];
};
