CREATE TABLE messages (
    chat_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL,
    sender TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    last_message INTEGER NOT NULL,
    active_at INTEGER NOT NULL,
    mark TEXT NOT NULL,
    client_message_id TEXT,
    content_type TEXT,
    box_key INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER,
    edited_at INTEGER,
    redacted INTEGER NOT NULL DEFAULT 0,
    reactions TEXT,
    target INTEGER,
    emoji TEXT,
    people TEXT,
    name TEXT,
    box BLOB, -- last: whoever counts or looks for a head reads no overflow page for it
    PRIMARY KEY (chat_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency_keys (
    chat_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    client_message_id TEXT NOT NULL,
    hint INTEGER NOT NULL,
    digest BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, sender, client_message_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE chats (
    chat_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    type TEXT NOT NULL,
    name TEXT,
    creator TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    member_count INTEGER NOT NULL
, deleted_at INTEGER, updated_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE direct_chats (
    pair TEXT PRIMARY KEY,
    chat_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE chat_memberships (
    chat_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    role TEXT NOT NULL,
    joined_at INTEGER NOT NULL,
    joined INTEGER NOT NULL,
    muted_until INTEGER,
    PRIMARY KEY (chat_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE reactions (
    chat_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    emoji TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, sequence, emoji, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE delivery_state (
    user_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    delivered INTEGER NOT NULL,
    read INTEGER NOT NULL,
    read_number INTEGER NOT NULL, is_own INTEGER NOT NULL DEFAULT 0, unread_from INTEGER NOT NULL DEFAULT 0, unread_number INTEGER NOT NULL DEFAULT 0, hidden_number INTEGER NOT NULL DEFAULT -1, delivered_times BLOB NOT NULL DEFAULT x'', read_times BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (user_id, chat_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE request_keys (
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    chat_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE tenants (
    tenant TEXT PRIMARY KEY,
    name TEXT,
    created_at INTEGER NOT NULL
, suspended_at INTEGER, quota_users INTEGER, quota_chats_per_day INTEGER, quota_messages_per_day INTEGER, deleted_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE tenant_keys (
    key_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE signing_keys (
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    public BLOB NOT NULL,
    sealed_private BLOB NOT NULL,
    master_key_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE users (
    user_id TEXT PRIMARY KEY,
    display_name TEXT,
    phone_number TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_seen_at INTEGER
, deactivated_at INTEGER, revoked_at INTEGER, avatar_url TEXT, metadata TEXT, email TEXT, phone_verified_at INTEGER, hidden_at INTEGER, deleted_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    author TEXT NOT NULL,
    generation INTEGER NOT NULL,
    wrapped BLOB,
    master_key_id TEXT,
    PRIMARY KEY (author, generation)
) STRICT, WITHOUT ROWID;
CREATE TABLE sealed_secrets (
    name TEXT PRIMARY KEY,
    master_key_id TEXT NOT NULL,
    sealed BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE deployment (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE revocations (
    place INTEGER PRIMARY KEY, -- one more than the last: rows are never deleted
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE TABLE tenant_settings (
    tenant TEXT PRIMARY KEY,
    settings TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE inboxes (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    config TEXT NOT NULL,
    PRIMARY KEY (tenant, inbox)
) STRICT, WITHOUT ROWID;
CREATE TABLE notifications (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    category TEXT,
    posted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    box_key INTEGER NOT NULL,
    box BLOB,
    PRIMARY KEY (tenant, inbox, notification_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE finished_jobs (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (tenant, inbox, notification_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE post_keys (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    notification_id TEXT,
    hint INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, inbox, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE announcements (
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL,
    posted_at INTEGER NOT NULL,
    mark TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    category TEXT,
    late_joiners INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    key TEXT,
    target TEXT,
    box_key INTEGER NOT NULL,
    box BLOB,
    PRIMARY KEY (tenant, inbox, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE copies (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    category TEXT,
    received_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, -- no index: it would cost every copy a page
    read_at INTEGER,
    PRIMARY KEY (user_id, inbox, notification_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE read_states (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    before INTEGER NOT NULL,
    announced INTEGER NOT NULL,
    PRIMARY KEY (user_id, inbox)
) STRICT, WITHOUT ROWID;
CREATE TABLE read_announcements (
    user_id TEXT NOT NULL,
    inbox TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    read_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, inbox, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE jobs (
    place INTEGER PRIMARY KEY AUTOINCREMENT, -- one is never used twice
    tenant TEXT NOT NULL,
    inbox TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    category TEXT,
    posted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    users TEXT NOT NULL,
    UNIQUE (tenant, inbox, notification_id, number)
) STRICT;
CREATE TABLE jobs_aside (
    aside_id TEXT PRIMARY KEY,
    job TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE user_counts (
    tenant TEXT PRIMARY KEY,
    users INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE token_issuers (
    tenant TEXT PRIMARY KEY,
    issuer TEXT,
    document BLOB NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    device TEXT NOT NULL,
    refresh_digest BLOB NOT NULL,
    previous_digest BLOB,
    sealed_refresh BLOB,
    created_at INTEGER NOT NULL,
    rotated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE login_codes (
    tenant TEXT NOT NULL,
    phone_number TEXT NOT NULL,
    digest BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, asked_by TEXT, attempts_elsewhere INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, phone_number)
) STRICT, WITHOUT ROWID;
CREATE TABLE budgets (
    name TEXT PRIMARY KEY,
    spent INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    at INTEGER NOT NULL,
    entry_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_id TEXT,
    action TEXT NOT NULL,
    fields TEXT NOT NULL,
    acts TEXT NOT NULL,
    outcome TEXT,
    code TEXT,
    PRIMARY KEY (at, entry_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE chat_counts (
    user_id TEXT PRIMARY KEY,
    chats INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE invites (
    user_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    inviter TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    invited_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, declined_at INTEGER,
    PRIMARY KEY (user_id, chat_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE chat_deletions (
    chat_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    deleted_by TEXT NOT NULL,
    phase TEXT NOT NULL,
    emptied INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tenant_jobs (
    tenant TEXT NOT NULL,
    job_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    pending TEXT NOT NULL,
    cursor TEXT,
    counts TEXT NOT NULL,
    result TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, job_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE export_parts (
    tenant TEXT NOT NULL,
    job_id TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    box BLOB NOT NULL,
    box_key INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, job_id, started_at, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE known_erasures (
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;
INSERT INTO messages VALUES ('01MCC5RM000SGX4MY2TEVV7NFA', 1, 'created', 'acme:bob', 1800000000000, 0, 0, 1800000000000, 'a682e63edc8cd791', NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, '[{"user":"acme:bob","role":"owner"},{"user":"acme:ann","role":"member"},{"user":"acme:carol","role":"member"}]', 'Team', NULL);
INSERT INTO messages VALUES ('01MCC5RM000SGX4MY2TEVV7NFA', 2, 'message', 'acme:bob', 1800000000000, 1, 2, 1800000000000, 'b23016ac8c8db6cb8', 'g1', 'text/plain', 1, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, X'C9F80040D9082FCF97F10C1D201F316CCB9E2C7391C788AFF02316BA8DB9C0FF2BCABF');
INSERT INTO messages VALUES ('01MCC5RM000SGX4MY2TEVV7NFA', 3, 'removed', 'acme:bob', 1800000000000, 1, 2, 1800000000000, 'b23016ac8c8db6cb9', NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, '[{"user":"acme:carol","role":"member"}]', NULL, NULL);
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 1, 'created', 'acme:ann', 1800000000000, 0, 0, 1800000000000, '3aaa0b3bfa25099b', NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, '[{"user":"acme:ann","role":"member"},{"user":"acme:bob","role":"member"}]', NULL, NULL);
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 2, 'message', 'acme:ann', 1800000000000, 1, 2, 1800000000000, 'b23016ac8c8db6cb1', 'm1', 'text/plain', 1, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, X'4BF096F88C41A8BCDCACAAF7FB9A853101335C714AE8F8D265887325B22C7B77852DB37D95EE920BDC');
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 3, 'message', 'acme:ann', 1800000000000, 2, 3, 1800000000000, 'b23016ac8c8db6cb2', 'm2', 'text/plain', 1, NULL, 1800000000000, 0, '{"👍":1}', NULL, NULL, NULL, NULL, X'1ADBE231D1CE9B6EE1098AA5D990F6D74168EA09C1E30288CBC560397F8D74C513CBBC7DFAAA8BF2BD6E88C6700B');
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 4, 'edited', 'acme:ann', 1800000000000, 2, 3, 1800000000000, 'b23016ac8c8db6cb3', NULL, 'text/plain', 0, NULL, NULL, 0, NULL, 3, NULL, NULL, NULL, NULL);
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 5, 'reacted', 'acme:bob', 1800000000000, 2, 3, 1800000000000, 'b23016ac8c8db6cb4', NULL, NULL, 0, NULL, NULL, 0, NULL, 3, '👍', NULL, NULL, NULL);
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 6, 'message', 'acme:bob', 1800000000000, 3, 6, 1800000000000, 'b23016ac8c8db6cb5', 'm3', 'text/plain', 1, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, X'E0C5B4AB6FEC7148DDDEBD3681018F253A3A4D8A5EC7E279B6242C4431EB4810F3BAAA6176');
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 7, 'message', 'acme:bob', 1800000000000, 4, 7, 1800000000000, 'b23016ac8c8db6cb6', 'm4', 'text/plain', 0, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO messages VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 8, 'redacted', 'acme:bob', 1800000000000, 4, 7, 1800000000000, 'b23016ac8c8db6cb7', NULL, NULL, 0, NULL, NULL, 0, NULL, 7, NULL, NULL, NULL, NULL);
INSERT INTO idempotency_keys VALUES ('01MCC5RM000SGX4MY2TEVV7NFA', 'acme:bob', 'g1', 2, X'5FDE1F5C259969EA67E880878164321D00000001', 1800604800000);
INSERT INTO idempotency_keys VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 'acme:ann', 'm1', 2, X'C7D75F9A3E4151191B7F16E255CE786700000001', 1800604800000);
INSERT INTO idempotency_keys VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 'acme:ann', 'm2', 3, X'2D441D2BB5A80A5D2E29EB282AD7846A00000001', 1800604800000);
INSERT INTO idempotency_keys VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 'acme:bob', 'm3', 6, X'6F16A64180CC4132362193C88C6876EB00000001', 1800604800000);
INSERT INTO idempotency_keys VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 'acme:bob', 'm4', 7, X'A05EB0B728B1F2263ACD2D53874F952F00000001', 1800604800000);
INSERT INTO chats VALUES ('01MCC5RM000SGX4MY2TEVV7NFA', 'acme', 'group', 'Team', 'acme:bob', 1800000000000, 2, NULL, 1800000000000);
INSERT INTO chats VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 'acme', 'direct', NULL, 'acme:ann', 1800000000000, 2, NULL, 1800000000000);
INSERT INTO direct_chats VALUES ('acme:ann#acme:bob', '01MCC5RM00VZ7XG0YRSXJGBC74');
INSERT INTO chat_memberships VALUES ('01MCC5RM000SGX4MY2TEVV7NFA', 'acme:ann', 'member', 1800000000000, 1, NULL);
INSERT INTO chat_memberships VALUES ('01MCC5RM000SGX4MY2TEVV7NFA', 'acme:bob', 'owner', 1800000000000, 1, NULL);
INSERT INTO chat_memberships VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 'acme:ann', 'member', 1800000000000, 1, NULL);
INSERT INTO chat_memberships VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 'acme:bob', 'member', 1800000000000, 1, NULL);
INSERT INTO reactions VALUES ('01MCC5RM00VZ7XG0YRSXJGBC74', 3, '👍', 'acme:bob', 1800000000000);
INSERT INTO delivery_state VALUES ('acme:ann', '01MCC5RM000SGX4MY2TEVV7NFA', 1, 1, 0, 0, 0, 0, -1, X'0180A4A7DA06', X'0180A4A7DA06');
INSERT INTO delivery_state VALUES ('acme:ann', '01MCC5RM00VZ7XG0YRSXJGBC74', 3, 3, 2, 1, 0, 0, -1, X'0180A4A7DA06', X'0180A4A7DA06');
INSERT INTO delivery_state VALUES ('acme:bob', '01MCC5RM000SGX4MY2TEVV7NFA', 2, 2, 1, 1, 0, 0, -1, X'0180A4A7DA06', X'0180A4A7DA06');
INSERT INTO delivery_state VALUES ('acme:bob', '01MCC5RM00VZ7XG0YRSXJGBC74', 3, 3, 2, 1, 0, 0, -1, X'0180A4A7DA06', X'0180A4A7DA060200');
INSERT INTO tenants VALUES ('acme', 'acme', 1800000000000, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenant_keys VALUES ('7b50d0ef65f0401f', 'acme', X'492ED4E66C224C7BE1A9BEE5E054A29D864E6897D2DEFACC13B5FD7419BF7A3E', 1800000000000, NULL);
INSERT INTO signing_keys VALUES ('acme', 'acme.9f23935d35858fc5', X'24BB291F55C6FF615F30C89148E2B607F5EE09759797D2F4366A1B70C790EC53', X'313255CC6BC765EE706AD735BE09DE42BCB365C95E092E627FFA888759681A3C5B2679BA0A00C6A3F24D3E75FCC0A8559DDEF692E007EB261D4CDB31', '0018de33043303cb', 1800000000000);
INSERT INTO users VALUES ('acme:ann', NULL, NULL, 1800000000000, 1800000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO users VALUES ('acme:bob', NULL, NULL, 1800000000000, 1800000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO users VALUES ('acme:carol', NULL, NULL, 1800000000000, 1800000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO keys VALUES ('acme:*', 1, X'12787B5B0040F5422A2D3BE8C98CD179B22CA01C88407FA19E5472FA3ADC9F7C62424DDE5C12F7E9CC0F55C907460FB5DCC52F7AB825F23C4B637B52', '0018de33043303cb');
INSERT INTO keys VALUES ('acme:ann', 1, X'C359CC60D931A2C945F647A25CA32940716D2BB17D7843B12EB7077AAEDD347106CEFA18AA3ABACBBBE172B449C25961E2F05328E41F55012E32D799', '0018de33043303cb');
INSERT INTO keys VALUES ('acme:bob', 1, X'C80B0B519AE63C48F518F917133BD1E7886F76470DC62CC06A0567268E9FDE555881C95F30FB62CE1FEB604FDDD2461915C19AC8D497B84F5D83F5A0', '0018de33043303cb');
INSERT INTO sealed_secrets VALUES ('cursor_key', '0018de33043303cb', X'31CF29A92D6D6A42316A507458AC09034AEE263D85880AFE7AA444A462BDE089EDE7AE4947A64A8C092AE4FFFAA64A7A6D050F2234CD4EEC7DDE0918');
INSERT INTO sealed_secrets VALUES ('digest_key', '0018de33043303cb', X'04A2ABBF200328242B1F9DBA68D6F18BB01EC59C14235E3D236C60DF8B01ABF14809BCA39746C1452249E897A887331D5802D0E70548434176CE5176');
INSERT INTO sealed_secrets VALUES ('login_key', '0018de33043303cb', X'8C44B7126E1CA0F3D9E2FFFEFB53E5BF24021B52823DD8538BEF1D0D5F3B1CA264A8D28F294395A20299BD5435B6015B322DCA8AB728E4FB5918670A');
INSERT INTO sealed_secrets VALUES ('message_key', '0018de33043303cb', X'D6BAF3C9E50FEE3D3CD2A18931F0EB272B9AF26411F4297066DEB0CD19F8DA717083FFA55FFA3C7228E18AC9E4F28686FE172CA1C0987BE0311AA3C6');
INSERT INTO deployment VALUES ('epoch', 'ac5ce613efd6feb4');
INSERT INTO inboxes VALUES ('acme', 'news', '{"title":"news","description":"","schema_version":"1.0","categories":null,"late_joiners":null,"keep_days":null,"message_schema":null}');
INSERT INTO announcements VALUES ('acme', 'news', 1, 'broadcast', 1800000000000, '221486c3defa2dbc', 1807776000000, NULL, 1, 3, NULL, NULL, 1, X'4BF0CB587744636247D9B94FBEC514471E5A29029A37BE9A736207FC1587C6F1206BD07998615A29861320F45B30548A36C96E8CC0703064CB71C05E4774957A7DD4EDDB913A5A1AAAEBBA87FF4617E2E1B826D18CDF49546A7A6B3B9D64B10D479E5BE3EDE2EBD3D595859E32A5F3A8360AB6B3357E157B5AF38F');
INSERT INTO user_counts VALUES ('acme', 3);
INSERT INTO budgets VALUES ('strangers:acme:ann:20833', 1, 1800057600000);
INSERT INTO budgets VALUES ('strangers:acme:bob:20833', 1, 1800057600000);
INSERT INTO audit VALUES (1800000000000, '00000000eb58a7271dee', 'acme', 'root', NULL, 'put_tenant', '["name"]', '[[1800000000000,null,"00d4e815472e99af"]]', 'done', NULL);
INSERT INTO audit VALUES (1800000000000, '00000001099c5486cd9b', 'acme', 'root', NULL, 'make_tenant_key', '[]', '[[1800000000000,"7b50d0ef65f0401f","9e66663daf205169"]]', 'done', NULL);
INSERT INTO audit VALUES (1800000000000, '000000027e36ca6225f0', 'acme', 'tenant_key', '7b50d0ef65f0401f', 'make_token', '["user_id"]', '[[1800000000000,"ann","922db845b69aee9c"]]', 'done', NULL);
INSERT INTO audit VALUES (1800000000000, '000000031eacd7fe5b6b', 'acme', 'tenant_key', '7b50d0ef65f0401f', 'make_token', '["user_id"]', '[[1800000000000,"bob","67eda98a2dfc9404"]]', 'done', NULL);
INSERT INTO audit VALUES (1800000000000, '0000000476323e344de5', 'acme', 'tenant_key', '7b50d0ef65f0401f', 'make_token', '["user_id"]', '[[1800000000000,"carol","b714819fd23d7f63"]]', 'done', NULL);
INSERT INTO audit VALUES (1800000000000, '00000005397d2dccae5d', 'acme', 'tenant_key', '7b50d0ef65f0401f', 'put_inbox', '["title"]', '[[1800000000000,"news","504f4ba6aebb01d6"]]', 'done', NULL);
INSERT INTO chat_counts VALUES ('acme:ann', 2);
INSERT INTO chat_counts VALUES ('acme:bob', 2);
INSERT INTO chat_counts VALUES ('acme:carol', 0);
CREATE INDEX messages_expiring ON messages (expires_at)
    WHERE expires_at IS NOT NULL AND box IS NOT NULL;
CREATE INDEX request_keys_expiring ON request_keys (expires_at);
CREATE INDEX keys_by_master ON keys (master_key_id);
CREATE INDEX notifications_expiring ON notifications (expires_at);
CREATE INDEX post_keys_expiring ON post_keys (expires_at);
CREATE INDEX announcements_expiring ON announcements (expires_at) WHERE box IS NOT NULL;
CREATE INDEX jobs_by_tenant ON jobs (tenant, place);
CREATE UNIQUE INDEX users_by_phone ON users
    (substr(user_id, 1, instr(user_id, ':') - 1), phone_number)
    WHERE phone_number IS NOT NULL;
CREATE INDEX sessions_ending ON sessions (coalesce(revoked_at, expires_at));
CREATE INDEX login_codes_expiring ON login_codes (expires_at);
CREATE INDEX budgets_expiring ON budgets (expires_at);
CREATE INDEX chat_memberships_by_joining ON chat_memberships (chat_id, joined, user_id);
CREATE INDEX audit_by_tenant ON audit (tenant, at, entry_id);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
WHEN old.outcome IS NOT NULL
    OR (new.at, new.entry_id, new.tenant, new.actor, new.action, new.fields)
        IS NOT (old.at, old.entry_id, old.tenant, old.actor, old.action, old.fields)
    OR new.actor_id IS NOT old.actor_id
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER receipts_come BEFORE INSERT ON delivery_state WHEN NOT EXISTS (
    SELECT 1 FROM delivery_state WHERE user_id = new.user_id AND chat_id = new.chat_id) BEGIN
    INSERT INTO chat_counts VALUES (new.user_id, 1) ON CONFLICT DO UPDATE SET chats = chats + 1;
END;
CREATE TRIGGER receipts_go AFTER DELETE ON delivery_state BEGIN
    UPDATE chat_counts SET chats = chats - 1 WHERE user_id = old.user_id;
END;
CREATE INDEX invites_expiring ON invites (expires_at);
CREATE INDEX chat_deletions_unfinished ON chat_deletions (created_at) WHERE phase <> 'done';
CREATE INDEX tenants_by_creation ON tenants (created_at, tenant);
CREATE INDEX tenant_keys_by_creation ON tenant_keys (tenant, created_at, key_id);
CREATE INDEX chats_by_tenant ON chats (tenant, chat_id) WHERE deleted_at IS NULL;
CREATE INDEX tenant_jobs_unfinished ON tenant_jobs (tenant, created_at, job_id)
    WHERE state = 'running';
CREATE INDEX erased_authors ON revocations (substr(subject, 1, instr(subject, ':') - 1), place)
    WHERE kind = 'author';
CREATE INDEX export_parts_expiring ON export_parts (expires_at);
CREATE TRIGGER users_come AFTER INSERT ON users WHEN new.deleted_at IS NULL BEGIN
    INSERT INTO user_counts VALUES (substr(new.user_id, 1, instr(new.user_id, ':') - 1), 1)
        ON CONFLICT DO UPDATE SET users = users + 1;
END;
CREATE TRIGGER users_go AFTER DELETE ON users WHEN old.deleted_at IS NULL BEGIN
    UPDATE user_counts SET users = users - 1
        WHERE tenant = substr(old.user_id, 1, instr(old.user_id, ':') - 1);
END;
CREATE INDEX sessions_of_users ON sessions (user_id, created_at);
PRAGMA user_version = 22;
