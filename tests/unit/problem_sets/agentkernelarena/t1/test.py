from kernel import total

assert total(range(100)) == 4950
