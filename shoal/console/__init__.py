"""The console: a page on the administration port that shows the node and its cluster, and runs SQL.

    routes.py       the page, its files, and the requests under /api: who may ask, and what comes back
    logins.py       who is logged in: passwords, cookies, tokens, expiry
    statements.py   a database connection that runs one statement at a time, within bounds
    views.py        the queries behind the page's views
    web/            the page's sources (TypeScript); `make console` bundles them into static/, which is what is served

Everything that the page shows comes from the database itself, over connections of the role that is logged in: the
server knows nothing that SQL does not say, and what a role may see and do is what its privileges let it.

    browser -> /api/view/NAME    a fixed query (views.py) on the login's own connection
            -> /api/sql          one statement on the connection of an editor tab, which keeps its transaction
"""
