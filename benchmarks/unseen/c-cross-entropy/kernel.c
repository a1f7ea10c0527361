// Cross-entropy loss of every row of logits with its label: log-softmax, and the label's entry of it.
#include <math.h>
#include <stdlib.h>

void solve(const float* logits, const int* labels, float* loss, int N, int V) {
    float* probabilities = malloc(V * sizeof(float));
    for (int i = 0; i < N; i++) {
        float max = -INFINITY;
        for (int v = 0; v < V; v++) {
            max = fmaxf(max, logits[i * V + v]);
        }
        float sum = 0.0f;
        for (int v = 0; v < V; v++) {
            probabilities[v] = expf(logits[i * V + v] - max);
            sum += probabilities[v];
        }
        for (int v = 0; v < V; v++) {
            probabilities[v] /= sum;
        }
        loss[i] = -logf(probabilities[labels[i]]);
    }
    free(probabilities);
}
