-- The channel's word on legs that it closed; the event that closes them has none. Guard: they are open.
UPDATE share_legs l SET reason = r.reason
  FROM unnest($2::text[], $3::text[]) AS r (account, reason)
 WHERE l.share_id = $1 AND l.account = r.account AND l.state = 'PENDING'
