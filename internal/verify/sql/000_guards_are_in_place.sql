-- Every constraint and trigger that guards money is there, valid and enabled.
SELECT format('%s is missing, not valid or disabled', g.name)
  FROM unnest(ARRAY['event_once', 'journal_once', 'payment_once', 'available_not_negative', 'paid_means_credited', 'entries_pkey',
                    'channel_receipts_pkey', 'hold_once', 'hold_not_exceeded', 'fences_pkey', 'transfer_reference_once',
                    'transfer_key_once', 'not_oversold', 'reservations_pkey', 'transfer_keys_pkey', 'redemption_codes_pkey', 'ledger_accounts_tenant_id_code_currency_key',
                    'channel_accounts_channel_identity_key', 'share_once', 'share_leg_once', 'leg_booked', 'share_legs_journal_id_key', 'share_return_once', 'share_returns_journal_id_key', 'share_returns_owed_journal_id_key', 'return_booked', 'shares_within_payment', 'payments_credit_journal_id_key',
                    'refund_once', 'refund_of_one', 'refund_divided', 'refund_ended', 'refund_booked', 'refunds_journal_id_key', 'refunds_reversal_journal_id_key',
                    'refunded_not_negative', 'refunds_within_captured', 'refunds_of_paid', 'refund_state_follows', 'refund_settled', 'leg_divided', 'leg_owed', 'settlement_of_one', 'settlements_journal_id_key']) AS g (name)
 WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conname = g.name AND c.convalidated AND c.connamespace = 'public'::regnamespace)
 UNION ALL
SELECT format('trigger %s on %s is missing or disabled', g.name, g.on_table)
  FROM (VALUES ('check_entries', 'entries'), ('append_only', 'entries'), ('append_only', 'journals'), ('append_only', 'settlements'),
               ('check_journal_has_entries', 'journals'), ('check_payment_move', 'payments'), ('check_payment_begin', 'payments'),
               ('check_transfer_move', 'transfers'), ('check_share_move', 'shares'), ('check_leg_move', 'share_legs'), ('check_return_move', 'share_returns'), ('check_refund_move', 'refunds'), ('check_refund_begin', 'refunds')) AS g (name, on_table)
 WHERE NOT EXISTS (SELECT FROM pg_trigger t
                    WHERE t.tgname = g.name AND t.tgrelid = ('public.' || g.on_table)::regclass AND t.tgenabled IN ('O', 'A'))
 UNION ALL
SELECT format('the unique index %s is missing or not valid', g.name)
  FROM unnest(ARRAY['entries_statement', 'share_finish_once', 'share_return_of_refund_once', 'refund_of_channel_once', 'refund_of_suspense_once', 'settlement_of_return_once']) AS g (name)
 WHERE NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = to_regclass('public.' || g.name) AND i.indisunique AND i.indisvalid)
