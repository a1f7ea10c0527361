import time

from kernel import total

print("N,time_us")
for size in (1000, 4000):
    begin = time.perf_counter()
    total(range(size))
    print(f"{size},{(time.perf_counter() - begin) * 1e6:.3f}")
