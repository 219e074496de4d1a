-- Each receipt is as it came and has its event; each event has its receipt.
SELECT format('receipt %s of account %s for %s: %s', r.id, r.account_id, r.event_key,
              CASE WHEN e.id IS NULL THEN 'its event is gone' ELSE 'its body was changed' END)
  FROM channel_receipts r
  LEFT JOIN channel_events e ON e.account_id = r.account_id AND e.event_key = r.event_key
 WHERE e.id IS NULL OR sha256(r.body) <> r.body_sha256
 UNION ALL
SELECT format('event %s (%s): its receipt is gone', e.id, e.event_key)
  FROM channel_events e
 WHERE NOT EXISTS (SELECT FROM channel_receipts r
                    WHERE r.id = e.receipt_id AND r.account_id = e.account_id AND r.tenant_id = e.tenant_id)
 LIMIT @max
