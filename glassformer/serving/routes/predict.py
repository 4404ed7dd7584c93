"""/v1/predict for the other tasks: classification, tagging, question answering, masked language models …"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request as HttpRequest

from glassformer.serving.request_errors import RequestError
from glassformer.serving.routes.libretranslate import describe
from glassformer.serving.routes.schemas import RESPONSES_V1
from glassformer.serving.service import Service
from glassformer.web_requests import Text


class PredictRequest(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "reviews", "texts": ["a fine film"]}]})

    model: Text | None = Field(None, description="name of a model")
    texts: list[Text] = Field(description="texts; for question answering: question, tab, text")


class PredictResponse(BaseModel):
    model: str
    predictions: list[dict[str, Any]]


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["Other tasks"], responses=RESPONSES_V1)

    @router.post("/predict")
    async def predict(request: HttpRequest, given: PredictRequest) -> PredictResponse:
        """Return what `glassformer predict --json` prints for each text."""
        info = service.model(given.model, "predict")
        if not given.texts or not all(text.strip() for text in given.texts):
            raise RequestError(400, "There is no text, or a text is empty.", parameter="texts")
        service.check_texts(given.texts)
        request.scope["exchange"].details |= describe(service, given.texts)
        return PredictResponse(model=info.name, predictions=await service.pool.predict(info.name, given.texts))

    return router
