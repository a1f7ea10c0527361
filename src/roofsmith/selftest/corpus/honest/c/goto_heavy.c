// honest: looks like generated code: labels and jumps
// operator: histogram
void solve(const int *x, int *counts, int N, int B) {
    int i = 0;
L0: if (i >= B) goto L1;
    counts[i] = 0;
    i = i + 1;
    goto L0;
L1: i = 0;
L2: if (i >= N) goto L4;
    if (x[i] < 0) goto L3;
    if (x[i] >= B) goto L3;
    counts[x[i]] = counts[x[i]] + 1;
L3: i = i + 1;
    goto L2;
L4: return;
}
