"""Applications that others wrote, driven as a user would: `make applications`, or python -m tests.applications NAME...

Each is installed from its language's registry into the cache folder, in the version that its module names, and is
driven against a server of its own. A line says its name, its version, and ok or what failed. docs/clients.md lists
them.

    base.py          what an application is: installed, then driven; for Python, Node, Maven and Go
    __main__.py      the command line
    programs/        what drives them: a program for each, in the application's language
    others           one module an application
"""
