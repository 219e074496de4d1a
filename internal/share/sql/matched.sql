-- Events that wait for a sharing which is there by now: whoever made it died before it could look for them.
SELECT e.id
  FROM channel_events e
 WHERE e.state = 'PARKED' AND e.outcome = 'UNKNOWN_SHARE'
   AND EXISTS (SELECT FROM shares s WHERE s.tenant_id = e.tenant_id AND s.out_order_no = e.out_no)
 ORDER BY e.id
 LIMIT $1
