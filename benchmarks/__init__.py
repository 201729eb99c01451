"""Speed and memory of the whole product, beside SimPy and real fio in the same run: docs/performance.md."""
