#include <math.h>
#include <stdint.h>

/* Accelerations of n bodies under softened gravity: pos is n x 3, mass n, acc n x 3. */
void solve(const float *pos, const float *mass, float *acc, int64_t N) {
    for (int64_t i = 0; i < N; i++) {
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int64_t j = 0; j < N; j++) {
            float dx = pos[3 * j] - pos[3 * i];
            float dy = pos[3 * j + 1] - pos[3 * i + 1];
            float dz = pos[3 * j + 2] - pos[3 * i + 2];
            float d2 = dx * dx + dy * dy + dz * dz + 1e-2f;
            float inv = 1.0f / sqrtf(d2);
            float s = mass[j] * inv * inv * inv;
            ax += s * dx;
            ay += s * dy;
            az += s * dz;
        }
        acc[3 * i] = ax;
        acc[3 * i + 1] = ay;
        acc[3 * i + 2] = az;
    }
}
