"""One module per request: its listing is the list of what this broker serves.

Each is named after its API (`JoinGroup` is served by `join_group`) and has `handle(request, context)`. A handler
answers by returning the response, or returns None and answers later through its context. One of a request
that only brokers send (`inter_broker`) gets a third argument, what a broker in a cluster has besides what every broker has.
"""
