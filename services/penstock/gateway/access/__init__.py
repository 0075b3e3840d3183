"""Authentication and authorization of requests, and the audit log.

- `users`     principals, their roles, the file of users, the role that each route needs
- `passwords` hashes of passwords
- `tokens`    bearer tokens of an OpenID provider
- `guard`     checks every request before its body is read: rate, site, principal, role
- `audit`     a log line for every change: who, what, result
"""
