"""Fetch, decode and preprocess the images of a request off the event loop."""

from __future__ import annotations

from collections.abc import Sequence

from service.generation.errors import InvalidRequest
from service.generation.prompts.conversation import ImagePart
from service.generation.prompts.image import ImageForm, PreprocessedImage
from service.images.data_url import Media, check_size, is_data_url, read_data_url
from service.images.decoding import decode
from service.images.fetching import Fetcher
from service.images.processor import ImageProcessor
from service.prompts.preparing.workers import Workers
from service.settings.image_settings import ImageSettings


class ImageReader:
    """Reads the images of one model's requests."""

    def __init__(self, processor: ImageProcessor, settings: ImageSettings, workers: Workers) -> None:
        """`workers` must not be shared with tokenization, so that texts never wait for images."""
        self._processor = processor
        self._settings = settings
        self._workers = workers
        self._fetcher = Fetcher(settings)

    @property
    def form(self) -> ImageForm:
        """The text and tokens that stand for an image in a prompt."""
        return self._processor.form

    def close(self) -> None:
        """Stop the threads. `read` may not be called afterwards."""
        self._workers.close()
        self._fetcher.close()

    def check_number(self, parts: Sequence[ImagePart]) -> None:
        """Raise InvalidRequest if there are more than `images.max_images` images; its field is the first one above."""
        limit = self._settings.max_images
        if len(parts) > limit:
            message = f"the request has {len(parts)} images; the limit is {limit} (images.max_images)"
            raise InvalidRequest(parts[limit].field, message)

    async def read(self, parts: Sequence[ImagePart], deadline: float | None) -> list[PreprocessedImage]:
        """Return the preprocessed images in the order of `parts`. An image that occurs twice is read once.

        `deadline` is a `time.monotonic()` instant in seconds. Raise InvalidRequest with the part's field,
        EngineOverloaded or DeadlineExceeded.
        """
        preprocessed: dict[tuple[str, bytes], PreprocessedImage] = {}
        for part in parts:
            if (part.url, part.data) not in preprocessed:
                preprocessed[part.url, part.data] = await self._read_image(part, deadline)
        return [preprocessed[part.url, part.data] for part in parts]

    async def _read_image(self, part: ImagePart, deadline: float | None) -> PreprocessedImage:
        """Fetch, decode and preprocess one image. Raise InvalidRequest."""
        limit_s = self._workers.limits.max_work_s
        too_long = InvalidRequest(part.field, f"the image took longer than {limit_s:g} s to read")
        fetched = None
        if not (part.data or is_data_url(part.url)):
            fetched = await self._fetcher.fetch(part.url, part.field, deadline)

        def preprocess() -> PreprocessedImage:
            media = fetched or self._inline(part)
            return self._processor.preprocess(decode(media, part.field, self._settings.max_pixels))

        return await self._workers.run(preprocess, deadline, too_long)

    def _inline(self, part: ImagePart) -> Media:
        """Return the image file of a part that contains it, as bytes or as a data: URL."""
        if not part.data:
            return read_data_url(part.url, part.field, self._settings.max_bytes)
        check_size(len(part.data), part.field, self._settings.max_bytes)
        return Media(part.data, part.media_type)
