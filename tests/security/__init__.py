"""What strangers try, over real HTTP: `coatcheck serve` in a process of its own, and tokens an issuer has signed.

`app.py` is the server, `served.py` starts it, `callers.py` are its clients, `attacks.py` what they may be up to.
Each case says what exactly is answered; that the task it was about is as before; and that it cannot be told from the
answer whether there is such a task. All that the servers log, at level debug, is searched for what must not be in it.
"""
