"""The console: a page on the administration port that shows the node and its cluster, and runs SQL.

    routes.py       the page, its files, and the requests under /api: permissions and responses
    logins.py       logins: passwords, cookies, tokens, expiry
    statements.py   a database connection that runs one statement at a time, with limits
    views.py        the queries behind the page's views
    web/            the sources of the page (TypeScript); `make console` bundles them into static/, which is served

The page shows results of SQL only, over connections of the role that is logged in. So the role's privileges apply.

    browser -> /api/view/NAME    a fixed query (views.py) on the login's own connection
            -> /api/sql          one statement on the connection of an editor tab, which keeps its transaction
"""
