# Four sections behind stonewalls: four groups, one after the other, each with two threads that are reported as one.
run tests/golden/004_stonewalls.fio
