-- What each receiver has of a payment or is about to get, less what came back. The payment is locked.
SELECT l.account, sum(l.amount - l.taken_back)::bigint AS amount
  FROM share_legs l JOIN shares s ON s.id = l.share_id
 WHERE s.payment_id = $1 AND l.state IN ('PENDING', 'SUCCEEDED')
 GROUP BY l.account
