-- +goose Up
-- What an order needs to be announced to its channel, and what the channel answered.
ALTER TABLE payments
    -- payer, client_ip, return_url, as the method needs them.
    ADD COLUMN channel_options json NOT NULL DEFAULT '{}',
    -- How the payment will be divided, frozen at the sale; null: it is not.
    ADD COLUMN sharing_plan json,
    -- null: no channel to be asked. PENDING: not announced yet, or the answer is unknown. READY: channel_data is there.
    -- FAILED: refused for good, prepay_failure says why.
    ADD COLUMN prepay_state text CHECK (prepay_state IN ('PENDING', 'READY', 'FAILED')),
    ADD COLUMN prepay_failure text,
    -- How often the channel was called: after the first call it is unknown whether it knows the order, so it is asked first.
    ADD COLUMN prepay_calls int NOT NULL DEFAULT 0,
    ADD COLUMN channel_data json,
    -- The channel's own number of the order, for channels that cannot be asked by ours.
    ADD COLUMN channel_reference text NOT NULL DEFAULT '',
    -- The merchant asked to close, or it expired: the flow closes it at the channel first.
    ADD COLUMN close_requested_at timestamptz,
    -- When the channel is asked (again) about an order that shall be closed.
    ADD COLUMN next_ask_at timestamptz,
    ADD CONSTRAINT prepay_has_account CHECK (prepay_state IS NULL OR account_id IS NOT NULL),
    ADD CONSTRAINT prepay_ready CHECK ((prepay_state = 'READY') = (channel_data IS NOT NULL));
CREATE INDEX payments_to_ask ON payments (next_ask_at) WHERE state = 'PENDING' AND next_ask_at IS NOT NULL;

GRANT INSERT (channel_options, sharing_plan, prepay_state, next_ask_at) ON payments TO paylatch_api;
GRANT UPDATE (prepay_state, prepay_failure, close_requested_at, next_ask_at) ON payments TO paylatch_api;
GRANT UPDATE (prepay_state, prepay_failure, prepay_calls, channel_data, channel_reference, close_requested_at, next_ask_at) ON payments TO paylatch_engine;

ALTER TABLE channel_events
    -- What the payer paid of amount after coupons; null where the channel does not tell.
    ADD COLUMN payer_amount bigint,
    -- The channel's fee; null where it does not tell.
    ADD COLUMN fee bigint,
    -- The merchant's own number of the refund or sharing.
    ADD COLUMN out_no text NOT NULL DEFAULT '',
    -- One leg of a sharing.
    ADD COLUMN receiver text NOT NULL DEFAULT '',
    ADD COLUMN leg_state text NOT NULL DEFAULT '';
GRANT UPDATE (payer_amount, fee, out_no, receiver, leg_state) ON channel_events TO paylatch_engine;

-- Processes keep a channel account in memory and must hear of its changes.
-- +goose StatementBegin
CREATE FUNCTION tell_of_channel_account() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('paylatch_channel_accounts', NEW.id::text);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER tell_of_channel_account AFTER INSERT OR UPDATE ON channel_accounts
    FOR EACH ROW EXECUTE FUNCTION tell_of_channel_account();

-- +goose Down
DROP TRIGGER tell_of_channel_account ON channel_accounts;
DROP FUNCTION tell_of_channel_account();
ALTER TABLE channel_events DROP COLUMN payer_amount, DROP COLUMN fee, DROP COLUMN out_no, DROP COLUMN receiver, DROP COLUMN leg_state;
DROP INDEX payments_to_ask;
ALTER TABLE payments DROP COLUMN channel_options, DROP COLUMN sharing_plan, DROP COLUMN prepay_state, DROP COLUMN prepay_failure, DROP COLUMN prepay_calls,
    DROP COLUMN channel_data, DROP COLUMN channel_reference, DROP COLUMN close_requested_at, DROP COLUMN next_ask_at;
