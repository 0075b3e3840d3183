"""Who may do what at the gateway.

- `people`    who there is, and what each may do; a file of users
- `passwords` hashes of passwords
- `tokens`    bearer tokens of an OpenID provider
- `choosing`  what the keys say of it
- `rights`    what each route needs; nothing is open that is not named
- `guard`     asks both of every request, before anything of it is read
- `audit`     a line for every change: who, what, how it ended
"""
