// Backward pass of layer normalisation: gradients of the input, the weight and the bias.
#include <math.h>
#include <string.h>

void solve(const float* x, const float* weight, const float* dout,
           float* dx, float* dweight, float* dbias, int N, int C) {
    memset(dweight, 0, C * sizeof(float));
    memset(dbias, 0, C * sizeof(float));
    for (int t = 0; t < N; t++) {
        const float* x_t = x + (size_t)t * C;
        const float* dout_t = dout + (size_t)t * C;
        float* dx_t = dx + (size_t)t * C;

        // statistics, which the forward pass didn't keep
        float mean = 0.0f;
        for (int i = 0; i < C; i++) {
            mean += x_t[i];
        }
        mean = mean / C;
        float var = 0.0f;
        for (int i = 0; i < C; i++) {
            var += (x_t[i] - mean) * (x_t[i] - mean);
        }
        float rstd = 1.0f / sqrtf(var / C + 1e-5f);

        // two reductions
        float dnorm_mean = 0.0f;
        float dnorm_norm_mean = 0.0f;
        for (int i = 0; i < C; i++) {
            float norm = (x_t[i] - mean) * rstd;
            float dnorm = weight[i] * dout_t[i];
            dnorm_mean += dnorm;
            dnorm_norm_mean += dnorm * norm;
        }
        dnorm_mean = dnorm_mean / C;
        dnorm_norm_mean = dnorm_norm_mean / C;

        // now accumulate all the gradients
        for (int i = 0; i < C; i++) {
            float norm = (x_t[i] - mean) * rstd;
            float dnorm = weight[i] * dout_t[i];
            dbias[i] += dout_t[i];
            dweight[i] += norm * dout_t[i];
            dx_t[i] = (dnorm - dnorm_mean - norm * dnorm_norm_mean) * rstd;
        }
    }
}
