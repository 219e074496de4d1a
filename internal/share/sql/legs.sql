-- The columns of share.Leg, of several sharings.
SELECT l.id, l.share_id, l.account, l.type, l.name, l.description, l.ratio, l.amount, l.state, l.reason, j.key AS journal_key,
       l.taken_back, l.receivable, l.settled, l.excess, l.ended_at
  FROM share_legs l
  LEFT JOIN journals j ON j.id = l.journal_id
 WHERE l.share_id = ANY($1)
 ORDER BY l.share_id, l.account COLLATE "C"
