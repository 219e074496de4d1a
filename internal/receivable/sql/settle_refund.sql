-- Guard: refund_settled. No more is settled than is owed.
UPDATE refunds SET settled = settled + $2 WHERE id = $1 AND journal_id IS NOT NULL
