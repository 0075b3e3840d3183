"""What the source and the sink have in common: one request, its answer, and what goes wrong.

- `keys`      the configuration keys of both: where, who, how long, how much
- `address`   URLs: what is refused of them, and what is added to them
- `headers`   lists of headers in a configuration; the `Link` header
- `client`    one request and its answer, within a time and a size
- `network`   the sockets below it: where they may lead, and their end
- `proxying`  a proxy that asks for us
- `reading`   the body of an answer, unpacked, never more than is allowed
- `login`     how a request says who asks; OAuth2 tokens
- `converting` the converter of rows, and what its messages are
- `retrying`  what is tried again, and when
- `failing`   what a server or a network says, as errors for people
"""
