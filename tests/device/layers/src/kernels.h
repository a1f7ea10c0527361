#pragma once
// Each works on a matrix of rows x cols floats, in device memory.
void scale_bias(const float* x, const float* bias, float* y, int rows, int cols);
void row_softmax(const float* x, float* y, int rows, int cols);
void gelu(const float* x, float* y, int rows, int cols);
