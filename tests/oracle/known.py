"""Where varsim is known to differ from the model; `test_known` says how, and notices the day.

- cut reads: over fair links, a read that the end of the run cuts short bears the number of the
  gradient before, not that of the gradient it is for (-1 for a worker's first).
- partly equal shards: shards that hold the same bytes become one flow of a fair link, also where
  they share a worker's link with other shards: together they get no more than one of those.
- overtaken: a worker that asks for a token between the moment tokens are put in and the moment the
  waiting go on, and has to wait, goes on before those who wait longer, the next time.
- void timers: over fair links, a run that stands still may do so at the time of a timer that had
  become void.
- examples in floats: of a gradient applied to some variables, a part is counted; thirds and sixths
  of examples add up to a little less than whole ones, so that limits are met an update too late.
"""

KNOWN: set[str] = set()
