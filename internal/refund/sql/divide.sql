-- How a refund for which nothing is set aside is divided: from its account, as a receivable, and above the captured amount.
UPDATE refunds SET awaited = 0, held = $2, receivable = $3, excess = $4 WHERE id = $1 AND journal_id IS NULL
