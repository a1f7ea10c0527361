// Cross-entropy loss of every row of logits with its label: log-softmax, and the label's entry of it.
#include <math.h>
#include <stdlib.h>

void solve(const float* logits, const int* labels, float* loss, int N, int V) {
    float* log_probabilities = malloc(V * sizeof(float));
    for (int i = 0; i < N; i++) {
        float max = -INFINITY;
        for (int v = 0; v < V; v++) {
            max = fmaxf(max, logits[i * V + v]);
        }
        float sum = 0.0f;
        for (int v = 0; v < V; v++) {
            sum += expf(logits[i * V + v] - max);
        }
        for (int v = 0; v < V; v++) {
            log_probabilities[v] = logits[i * V + v] - max - logf(sum);
        }
        loss[i] = -log_probabilities[labels[i]];
    }
    free(log_probabilities);
}
