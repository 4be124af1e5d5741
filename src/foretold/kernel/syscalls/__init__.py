"""The table of system calls: what each builtin that can reach the machine does inside a run.

rows.py says what a row is; of_os.py, of_modules.py and of_python.py hold the rows; dispatch.py
makes them true for functions, types.py for types, c_functions.py for what is called by ctypes.
"""
