"""Requests that a broker in a cluster answers otherwise than one that is alone, one module each; the rest is in `broker/apis`.

Those between brokers are here too: a broker that is alone refuses them (`broker/inter_broker`).
"""
