# SPDX-License-Identifier: Apache-2.0
"""The types of what handlers are given: who calls, what the path names, what can be done."""

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from tidings.actions.identity import Caller as AnyCaller
from tidings.actions.inbox.verbs import InboxVerbs
from tidings.actions.jobs_aside import LookAfterJobs
from tidings.actions.login_verbs import LoginVerbs
from tidings.actions.reading_audit import ReadAudit
from tidings.actions.verbs import ChatVerbs
from tidings.api.callers import IdentityVerbs
from tidings.model.ids import ChatId, UserKey

Caller = NamedDependency[SkipValidation[AnyCaller]]
User = NamedDependency[SkipValidation[UserKey]]
Chat = NamedDependency[SkipValidation[ChatId]]
Place = NamedDependency[SkipValidation[int]]
Verbs = NamedDependency[SkipValidation[ChatVerbs]]
Inboxes = NamedDependency[SkipValidation[InboxVerbs]]
LimitInPath = NamedDependency[SkipValidation[int]]
JobsSetAside = NamedDependency[SkipValidation[LookAfterJobs]]
Address = NamedDependency[SkipValidation[str | None]]
Logins = NamedDependency[SkipValidation[LoginVerbs]]
Identity = NamedDependency[SkipValidation[IdentityVerbs]]
AuditReading = NamedDependency[SkipValidation[ReadAudit]]
