def total(numbers):
    found = 0
    for one in numbers:
        found += one
    return found
