#include <vector>
static std::vector<float> heap;
extern "C" void solve(const float *x, float *out, int n) {
    heap.clear();
    for (int i = 0; i < n; i++) { if (heap.size() < 8 || x[i] > heap.front()) heap.push_back(x[i]); }
    for (std::size_t i = 0; i < heap.size(); i++) out[i] = heap[i];
}
