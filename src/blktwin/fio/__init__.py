"""fio on the model: the job language, the job loop and its I/O engines, results and reports."""
