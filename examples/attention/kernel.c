// Multi-head attention: N tokens of width d, split into h heads of d / h columns each.
//   output = softmax(Q K^T / sqrt(d / h)) V, head by head
#include <math.h>

void solve(const float* Q, const float* K, const float* V, float* output, int N, int d, int h) {
    int width = d / h;
    float scale = 1.0f / sqrtf((float)width);

    for (int head = 0; head < h; head++) {
        int first = head * width;
        for (int i = 0; i < N; i++) {
            float score[N];

            float largest = -INFINITY;
            for (int j = 0; j < N; j++) {
                float dot = 0.0f;
                for (int c = 0; c < width; c++) {
                    dot += Q[i * d + first + c] * K[j * d + first + c];
                }
                score[j] = dot * scale;
                if (score[j] > largest) {
                    largest = score[j];
                }
            }

            float sum = 0.0f;
            for (int j = 0; j < N; j++) {
                score[j] = expf(score[j] - largest);
                sum += score[j];
            }

            for (int c = 0; c < width; c++) {
                float value = 0.0f;
                for (int j = 0; j < N; j++) {
                    value += score[j] * V[j * d + first + c];
                }
                output[i * d + first + c] = value / sum;
            }
        }
    }
}
